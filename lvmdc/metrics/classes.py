"""How often the class is wrong."""

from lvmdc.candidates import ArrayLike, as_tensor


def class_error(y: ArrayLike, y_hat: ArrayLike) -> float:
    """The share of samples whose predicted class is not the true one.

    >>> class_error([0, 1, 2, 2], [0, 1, 1, 2])
    0.25
    """
    truth, predicted = as_tensor(y), as_tensor(y_hat)
    if truth.dim() != 1 or truth.shape != predicted.shape or len(truth) == 0:
        raise ValueError(f"y and y_hat must have one shape (n,), but they have shapes {tuple(truth.shape)} and {tuple(predicted.shape)}")
    return float((truth != predicted.to(truth.device)).double().mean())
