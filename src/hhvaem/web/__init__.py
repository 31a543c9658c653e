"""The local page and service behind `hhvaem serve` (extra `web`)."""
