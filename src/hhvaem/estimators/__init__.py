"""`Imputer`, `Regressor` and `Classifier`: the library with the habits of scikit-learn."""

from hhvaem.estimators.imputer import Imputer as Imputer
from hhvaem.estimators.predictors import Classifier as Classifier
from hhvaem.estimators.predictors import Regressor as Regressor
