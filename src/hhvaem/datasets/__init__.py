"""The paper's tables and images: fetched, checked, loaded and split.

`load` gives a table, `load_images` an image set, `fetch` gets either from its public source;
`hhvaem.datasets.splits` has the folds and masks that every method of a comparison shares.
"""

from hhvaem.datasets.catalogue import CATALOGUE as CATALOGUE
from hhvaem.datasets.fetch import fetch as fetch
from hhvaem.datasets.images import Images as Images
from hhvaem.datasets.images import load_images as load_images
from hhvaem.datasets.tables import Dataset as Dataset
from hhvaem.datasets.tables import load as load
