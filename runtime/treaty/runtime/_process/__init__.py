"""This process and its peers: signals, forks, threads, and the other processes of a distributed program."""
