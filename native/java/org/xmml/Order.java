package org.xmml;

/** How the elements of an array follow each other in memory. */
public enum Order {
    /** Last index fastest, as in C and in Java's arrays of arrays. */
    ROW_MAJOR,
    /** First index fastest, as in Fortran. */
    COLUMN_MAJOR
}
