"""Codebooks in the forms of archives and statistical offices: DDI, SPSS, Stata, Table Schema, SDNist, JSON."""
