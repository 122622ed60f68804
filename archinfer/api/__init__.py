"""The commands as functions of plain numbers or of texts with units, for programs and check files.

Each takes what the command of its name takes, from the same table (`archinfer.question`), and
means the same: the command reads its options and prints, and adds nothing to the answer.
"""
