"""Fill the holes of a table, predict from what is known, ask for what is worth knowing."""

from hhvaem.errors import InputError as InputError
from hhvaem.errors import TableWarning as TableWarning
from hhvaem.files import read_table as read_table
from hhvaem.files import write_table as write_table
from hhvaem.inference import infer_schema as infer_schema
from hhvaem.schema import Column as Column
from hhvaem.schema import Schema as Schema
from hhvaem.table import encode as encode
from hhvaem.table import fill as fill

__version__ = "0.1.0"
