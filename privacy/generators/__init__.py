"""Generators of synthetic microdata: each plans without data, is fitted through a grant, and gives a model.

Where to look:
    generator      what a generator is asked, what it plans, what it gives
    registry       generators by name
    aim, mst, privbayes, independent, fixed      the built-in ones
    spending       what a share of a budget buys; schedule, stages: how it is divided
    fitting        a fit on its way: measure, choose, estimate
    models         the model that is published
"""
