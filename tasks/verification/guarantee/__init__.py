"""Do the stated loss and its meaning follow from what was charged?"""
