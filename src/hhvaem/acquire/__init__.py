"""Which unknown cell of a row is worth asking for next."""
