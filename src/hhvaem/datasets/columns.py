"""The columns of each table, in the order of its file, with what they are."""

from hhvaem.schema import Kind

Columns = tuple[tuple[str, Kind], ...]


def _all(kind: Kind, names: str, prefix: str = "") -> Columns:
    return tuple((prefix + name, kind) for name in names.split())


AVOCADO: Columns = (
    ("index", "ignored"),  # the row number within region and year: no feature
    ("Date", "datetime"),
    ("AveragePrice", "positive"),
    ("Total Volume", "positive"),
    ("PLU_4046", "positive"),
    ("PLU_4225", "positive"),
    ("PLU_4770", "positive"),
    ("Total Bags", "positive"),
    ("Small Bags", "positive"),
    ("Large Bags", "positive"),
    ("XLarge Bags", "positive"),
    ("type", "binary"),
    ("year", "ordinal"),
    ("region", "categorical"),
)

# Levels called "unknown" stay levels, and that one has no place in an order: education is
# categorical, not ordinal.
BANK: Columns = (
    ("age", "count"),
    ("job", "categorical"),
    ("marital", "categorical"),
    ("education", "categorical"),
    ("default", "categorical"),
    ("housing", "categorical"),
    ("loan", "categorical"),
    ("contact", "binary"),
    ("month", "categorical"),
    ("day_of_week", "categorical"),
    ("duration", "count"),
    ("campaign", "count"),
    ("pdays", "count"),
    ("previous", "count"),
    ("poutcome", "categorical"),
    ("emp.var.rate", "real"),
    ("cons.price.idx", "positive"),
    ("cons.conf.idx", "real"),
    ("euribor3m", "positive"),
    ("nr.employed", "positive"),
    ("y", "binary"),
)

BANK_FULL: Columns = (
    ("age", "count"),
    ("job", "categorical"),
    ("marital", "categorical"),
    ("education", "categorical"),
    ("default", "binary"),
    ("balance", "real"),
    ("housing", "binary"),
    ("loan", "binary"),
    ("contact", "categorical"),
    ("day", "ordinal"),
    ("month", "categorical"),
    ("duration", "count"),
    ("campaign", "count"),
    ("pdays", "real"),  # -1 where the client was never contacted
    ("previous", "count"),
    ("poutcome", "categorical"),
    ("y", "binary"),
)

BOSTON: Columns = (
    ("CRIM", "positive"),
    ("ZN", "positive"),
    ("INDUS", "positive"),
    ("CHAS", "binary"),
    ("NOX", "positive"),
    ("RM", "positive"),
    ("AGE", "positive"),
    ("DIS", "positive"),
    ("RAD", "ordinal"),
    ("TAX", "positive"),
    ("PTRATIO", "positive"),
    ("B", "positive"),
    ("LSTAT", "positive"),
    ("MEDV", "positive"),
)

CONCRETE: Columns = (
    ("Cement", "positive"),
    ("BlastFurnaceSlag", "positive"),
    ("FlyAsh", "positive"),
    ("Water", "positive"),
    ("Superplasticizer", "positive"),
    ("CoarseAggregate", "positive"),
    ("FineAggregate", "positive"),
    ("Age", "count"),
    ("Strength", "positive"),
)

DIABETES: Columns = (
    ("age", "positive"),
    ("sex", "binary"),
    ("bmi", "positive"),
    ("bp", "positive"),
    ("s1", "positive"),
    ("s2", "positive"),
    ("s3", "positive"),
    ("s4", "positive"),
    ("s5", "positive"),
    ("s6", "positive"),
    ("progression", "positive"),
)

ENERGY: Columns = (
    ("X1", "positive"),
    ("X2", "positive"),
    ("X3", "positive"),
    ("X4", "positive"),
    ("X5", "binary"),
    ("X6", "categorical"),
    ("X7", "ordinal"),
    ("X8", "categorical"),
    ("Y1", "positive"),
    ("Y2", "positive"),
)

# The names of the CoIL 2000 dictionary: M.. describe the neighbourhood (shares in bands), P.. are
# contributions in bands and A.. numbers of the same 21 kinds of policy.
_SHARES = """
    MGODRK MGODPR MGODOV MGODGE MRELGE MRELSA MRELOV MFALLEEN MFGEKIND MFWEKIND MOPLHOOG MOPLMIDD
    MOPLLAAG MBERHOOG MBERZELF MBERBOER MBERMIDD MBERARBG MBERARBO MSKA MSKB1 MSKB2 MSKC MSKD
    MHHUUR MHKOOP MAUT1 MAUT2 MAUT0 MZFONDS MZPART MINKM30 MINK3045 MINK4575 MINK7512 MINK123M
    MINKGEM MKOOPKLA
"""
_POLICIES = """
    WAPART WABEDR WALAND PERSAUT BESAUT MOTSCO VRAAUT AANHANG TRACTOR WERKT BROM LEVEN PERSONG
    GEZONG WAOREG BRAND ZEILPL PLEZIER FIETS INBOED BYSTAND
"""
INSURANCE: Columns = (
    ("MOSTYPE", "categorical"),
    ("MAANTHUI", "count"),
    ("MGEMOMV", "ordinal"),
    ("MGEMLEEF", "ordinal"),
    ("MOSHOOFD", "categorical"),
    *_all("ordinal", _SHARES),
    *_all("ordinal", _POLICIES, prefix="P"),
    *_all("count", _POLICIES, prefix="A"),
    ("CARAVAN", "binary"),
)

NAVAL: Columns = (
    ("lever_position", "ordinal"),
    ("ship_speed", "ordinal"),
    ("gt_shaft_torque", "positive"),
    ("gt_revolutions", "positive"),
    ("gg_revolutions", "positive"),
    ("starboard_propeller_torque", "positive"),
    ("port_propeller_torque", "positive"),
    ("hp_turbine_exit_temperature", "positive"),
    ("compressor_inlet_temperature", "constant"),
    ("compressor_outlet_temperature", "positive"),
    ("hp_turbine_exit_pressure", "positive"),
    ("compressor_inlet_pressure", "constant"),
    ("compressor_outlet_pressure", "positive"),
    ("exhaust_gas_pressure", "positive"),
    ("turbine_injection_control", "positive"),
    ("fuel_flow", "positive"),
    ("compressor_decay", "positive"),
    ("turbine_decay", "positive"),
)

WINE: Columns = (
    *_all(
        "positive",
        """
        alcohol malic_acid ash alcalinity_of_ash magnesium total_phenols flavanoids
        nonflavanoid_phenols proanthocyanins color_intensity hue
        od280/od315_of_diluted_wines proline
        """,
    ),
    ("class", "categorical"),
)

WINE_QUALITY: Columns = (
    ("fixed acidity", "positive"),
    ("volatile acidity", "positive"),
    ("citric acid", "positive"),
    ("residual sugar", "positive"),
    ("chlorides", "positive"),
    ("free sulfur dioxide", "positive"),
    ("total sulfur dioxide", "positive"),
    ("density", "positive"),
    ("pH", "positive"),
    ("sulphates", "positive"),
    ("alcohol", "positive"),
    ("quality", "ordinal"),
)

YACHT: Columns = (
    ("buoyancy_position", "real"),
    ("prismatic_coefficient", "positive"),
    ("length_displacement_ratio", "positive"),
    ("beam_draught_ratio", "positive"),
    ("length_beam_ratio", "positive"),
    ("froude_number", "positive"),
    ("resistance", "positive"),
)
