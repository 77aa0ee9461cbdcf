"""The errors of the package: one base, and children that are also the builtin a caller would expect."""


class NeuralILPError(Exception):
    """Base of every error that neuralilp raises on purpose."""


class InputError(NeuralILPError, ValueError):
    """An argument has a value that cannot be used; the message names it, what was expected and what came."""


class ShapeError(InputError):
    """Tensors whose shapes or dtypes do not fit together."""


class FileFormatError(NeuralILPError, ValueError):
    """A file is missing, truncated, or not of the expected kind."""


class BackendMissingError(NeuralILPError, ImportError):
    """An optional solver is not installed; the message holds the pip command that installs it."""


class LicenceError(NeuralILPError, RuntimeError):
    """A solver is installed but its licence does not allow this solve."""
