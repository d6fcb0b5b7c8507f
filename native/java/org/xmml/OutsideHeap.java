package org.xmml;

/**
 * The memory of arrays, received ones above all, that the native library holds and that are not given back yet. Java's collector sees small objects only, and may not run for
 * minutes while they hold gigabytes; it is called when what is held has doubled since it was counted last.
 */
final class OutsideHeap {
    /** Less than this many bytes are nobody's concern. */
    private static final long FEW = 128L << 20;

    private static long held;
    private static long limit = FEW;

    private OutsideHeap() {}

    /** So many bytes are held by one more array. */
    static void hold(long bytes) {
        synchronized (OutsideHeap.class) {
            held += bytes;
            if (held <= limit) {
                return;
            }
            // What is given back lowers it again.
            limit = 2 * held;
        }
        System.gc(); // arrays that nobody can reach are given back soon after, by another thread
    }

    /** They are given back. */
    static synchronized void release(long bytes) {
        held -= bytes;
        limit = Math.max(FEW, 2 * held);
    }
}
