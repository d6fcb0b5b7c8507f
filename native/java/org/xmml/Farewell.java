package org.xmml;

import java.lang.Thread.UncaughtExceptionHandler;

/**
 * How the instance of a program ends that does not get to the end of its loop. Java does not tell {@code close} about exceptions, so what
 * ends the program tells: an exception that nobody catches is why the instance failed, and a normal end is a normal leave.
 */
final class Farewell {
    private static Instance instance;
    private static Thread user;

    private Farewell() {}

    static synchronized void watch(Instance joined) {
        instance = joined;
        user = Thread.currentThread();
        UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, problem) -> {
            if (before != null) {
                before.uncaughtException(thread, problem);
            } else if (!(problem instanceof RunAbortedException)) {
                System.err.print("Exception in thread \"" + thread.getName() + "\" ");
                problem.printStackTrace();
            } else {
                System.err.println(problem.getMessage());
            }
            fail(thread, problem);
        });
        Runtime.getRuntime().addShutdownHook(new Thread(Farewell::leaveLate, "xmml-farewell"));
    }

    /** The thread whose exceptions are the instance's. */
    static synchronized void closedBy(Instance closed) {
        if (closed == instance) {
            user = Thread.currentThread();
            closedEarly = true;
        }
    }

    private static boolean closedEarly;

    private static synchronized void fail(Thread thread, Throwable problem) {
        if (thread == user && !instance.isOver()) {
            instance.fail(describe(problem));
        }
    }

    /** The program ends normally, having closed its instance before its last run was over. */
    private static void leaveLate() {
        Instance mine;
        synchronized (Farewell.class) {
            mine = closedEarly && !instance.isOver() ? instance : null;
        }
        if (mine == null) {
            return;
        }
        try {
            mine.leave();
        } catch (RunAbortedException aborted) {
            // The run knows.
        } catch (XmmlException problem) {
            System.err.println(problem.getMessage());
            mine.fail(problem.getMessage());
        }
    }

    /** One line for the run's report: {@code IllegalStateException: negative depth at Section.java:41}. */
    static String describe(Throwable problem) {
        String text = problem.getMessage() == null ? "" : problem.getMessage().strip().replaceAll("\\s+", " ");
        String name = problem.getClass().getSimpleName();
        String what = problem instanceof XmmlException ? text : text.isEmpty() ? name : name + ": " + text;
        for (StackTraceElement frame : problem.getStackTrace()) {
            String owner = frame.getClassName();
            boolean users = !owner.startsWith("org.xmml.") && !owner.startsWith("java.") && !owner.startsWith("jdk.");
            if (users && frame.getFileName() != null) {
                return what + " at " + frame.getFileName() + ":" + frame.getLineNumber();
            }
        }
        return what;
    }
}
