"""The door (law 1): a charged run counts or sums, draws its noise once, and keeps what it drew.

Where to look:
    grant                    what others call
    draws                    what generators and trainers may ask, without the ledger
    queries                  what may be asked; free, draws nothing
    samplers                 how each kind of query is drawn; the only code that imports noise
    sites                    the same for shares of a federation
    durable_draws            draw once, write, enter, replay
    arguments, remaining     what a query may ask for, and whether the charge has room
"""
