"""scikit-learn's conventions for estimators, without importing scikit-learn, which takes nearly as long as torch."""

from __future__ import annotations

import copy
import inspect
from typing import Any, Self


class Estimator:
    """Parameters by name, as `sklearn.base.BaseEstimator` has them: `clone`, `GridSearchCV` and `cross_val_score` work.

    >>> class Ridge(Estimator):
    ...     def __init__(self, alpha=1.0, start=None):
    ...         self.alpha, self.start = alpha, start
    >>> model = Ridge(start=Ridge()).set_params(alpha=2.0, start__alpha=3.0)
    >>> model, model.clone().get_params()["start__alpha"]
    (Ridge(alpha=2.0, start=Ridge(alpha=3.0)), 3.0)
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The parameters of the constructor with their default values, sorted by name."""
        parameters = inspect.signature(cls).parameters
        return {name: parameters[name].default for name in sorted(parameters)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; with `deep`, also those of parameters that have some, as `outer__inner`."""
        found: dict[str, Any] = {}
        for name in self._defaults():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": part for inner, part in value.get_params().items()}
            found[name] = value
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; `outer__inner` sets a parameter of a parameter."""
        names = self._defaults()
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if outer not in names:
                raise ValueError(f"Invalid parameter {outer!r} for {type(self).__name__}, which has {', '.join(names)}")
            if inner:
                getattr(self, outer).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def clone(self) -> Self:
        """An estimator with copies of the same parameters that has learned nothing."""
        params = self.get_params(deep=False)
        copies = {name: value.clone() if isinstance(value, Estimator) else copy.deepcopy(value) for name, value in params.items()}
        return type(self)(**copies)

    def __sklearn_clone__(self) -> Self:
        return self.clone()

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()

    def __repr__(self) -> str:
        changed = (
            f"{name}={getattr(self, name)!r}" for name, default in self._defaults().items() if repr(getattr(self, name)) != repr(default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"
