package org.xmml;

import java.lang.ref.Cleaner;

/**
 * What the native library holds for objects of Java, and is not given back yet: the memory of arrays, received ones above all, and attributes. Java's collector sees small objects
 * only, and may not run for minutes while they hold gigabytes; it is called when what is held has doubled since it was counted last.
 */
final class OutsideHeap {
    static final Cleaner CLEANER = Cleaner.create();
    /** Less than this many bytes are nobody's concern. */
    private static final long FEW = 128L << 20;

    private static long held;
    private static long limit = FEW;

    private OutsideHeap() {}

    /**
     * So many bytes are held for one more object.
     *
     * @param owner the object
     * @param free gives them back; must not reach the owner
     * @return what gives them back before the owner is out of reach
     */
    static Cleaner.Cleanable hold(Object owner, long bytes, Runnable free) {
        Cleaner.Cleanable memory = CLEANER.register(owner, () -> {
            free.run();
            release(bytes);
        });
        count(bytes);
        return memory;
    }

    private static void count(long bytes) {
        synchronized (OutsideHeap.class) {
            held += bytes;
            if (held <= limit) {
                return;
            }
            // What is given back lowers it again.
            limit = 2 * held;
        }
        System.gc(); // what nobody can reach is given back soon after, by another thread
    }

    /** They are given back. */
    private static synchronized void release(long bytes) {
        held -= bytes;
        limit = Math.max(FEW, 2 * held);
    }
}
