"""The command line: arguments in, one session, a result out, as tables for people or as one JSON document."""
