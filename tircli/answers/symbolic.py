"""Equality of two formulas by sympy and math-verify; it runs inside a worker alone."""

from __future__ import annotations

from typing import Any


def same(left: str, right: str) -> bool | None:
    """True if two formulas are equal in either order of arguments; None if one cannot be read."""
    a, b = _expression(left), _expression(right)
    if a is None or b is None:
        return None
    return bool(_same(a, b))


def warm() -> None:
    """Load the libraries and their parsers."""
    same(r"\int_0^1 x dx", "0.5")


def _expression(text: str) -> Any:
    """The sympy object math-verify reads in the text, or None."""
    import sympy
    from math_verify import LatexExtractionConfig, parse

    found = parse(
        f"${text}$",
        extraction_config=[LatexExtractionConfig()],
        parsing_timeout=None,
        raise_on_error=False,
    )
    found = [item for item in found if not isinstance(item, str)]
    if found and isinstance(found[0], sympy.Expr):
        units = {s: sympy.I for s in found[0].free_symbols if s.name == "i"}
        return found[0].xreplace(units) if units else found[0]
    return found[0] if found else None


def _same(left: Any, right: Any) -> bool:
    """True when two sympy objects are equal; numbers by their first 40 digits."""
    import sympy
    from math_verify import verify

    if not (isinstance(left, sympy.Expr) and isinstance(right, sympy.Expr)):
        options = {"timeout_seconds": None, "raise_on_error": False}
        return bool(verify(left, right, **options) or verify(right, left, **options))
    left, right = left.doit(), right.doit()
    if left.has(sympy.zoo, sympy.nan) or right.has(sympy.zoo, sympy.nan):
        return False
    if left == right:
        return True
    if not (left.free_symbols or right.free_symbols):
        a, b = sympy.N(left, 60), sympy.N(right, 60)
        if not (a.is_number and b.is_number) or a.is_infinite or b.is_infinite:
            return bool(a == b)
        if a.has(sympy.Integral, sympy.Sum, sympy.Product) or b.has(sympy.Integral, sympy.Sum):
            return False
        return bool(abs(a - b) <= abs(a) * sympy.Float("1e-40"))
    return bool(sympy.simplify(sympy.expand(left - right)) == 0)
