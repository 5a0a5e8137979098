//! Dates and times: from text to days and microseconds, by Spark's rules, and from Spark's old calendar to today's.
