"""Was what was drawn what was charged?"""
