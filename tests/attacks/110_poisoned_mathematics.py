# must: sympy and numpy made to lie: harm ends with the call
# control: pool: the next call of a naive worker gets a wrong answer
import fractions, math, numpy, sympy
from sympy.core.cache import clear_cache
sympy.integrate = sympy.factor = lambda *_, **__: sympy.Integer(42)
sympy.Integer.__add__ = lambda self, other: sympy.Integer(7)
sympy.Integer.__repr__ = sympy.Integer.__str__ = lambda self: 'seven'
fractions.Fraction.__add__ = lambda self, other: 0
math.pi = 3
numpy.arange = numpy.zeros
clear_cache()
