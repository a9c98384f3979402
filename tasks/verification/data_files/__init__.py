"""Do data files hold what follows from them, and nothing else?"""
