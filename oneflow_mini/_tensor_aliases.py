"""Second names of functions and methods, as PyTorch has them."""

#: alias: name
ALIASES = {
    "absolute": "abs", "negative": "neg", "multiply": "mul", "fix": "trunc", "sgn": "sign", "swapdims": "transpose", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "not_equal": "ne",
}  # fmt: skip
