package org.xmml;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;

/** The program of an instance that is a class: {@code java -cp ... org.xmml.Host pkg.Class}. Started by {@code xmml-run}. */
public final class Host {
    private static final ThreadLocal<Instance> JOINED = new ThreadLocal<>();

    private Host() {}

    /** What a hosted object finds as its instance. */
    static Instance instance() {
        Instance joined = JOINED.get();
        if (joined == null) {
            throw new XmmlException("an object of this class is made by the runtime: name the class in the model, or use Host.run");
        }
        return joined;
    }

    /**
     * Joins the run, makes an object of the class, and has it run. A class of another kind with a {@code main} joins by itself.
     *
     * @param arguments the name of a class derived from {@link Submodel} or {@link Mapper}, or with a {@code main}; then arguments for
     *     that
     * @throws Throwable whatever the class throws
     */
    public static void main(String[] arguments) throws Throwable {
        if (arguments.length == 0) {
            System.err.println("usage: java -cp CLASSES:xmml.jar org.xmml.Host CLASS");
            System.exit(2);
        }
        Class<?> hosted;
        try {
            hosted = Class.forName(arguments[0]);
        } catch (ClassNotFoundException missing) {
            try (Instance me = Instance.join()) {
                throw new XmmlException(me.name() + ": there is no class " + arguments[0] + " on the class path "
                        + System.getProperty("java.class.path"));
            }
        }
        if (!isHosted(hosted)) {
            try {
                Method main = hosted.getMethod("main", String[].class);
                String[] rest = Arrays.copyOfRange(arguments, 1, arguments.length);
                main.invoke(null, (Object) rest);
                return;
            } catch (NoSuchMethodException none) {
                // Then run says what it must be.
            } catch (InvocationTargetException thrown) {
                throw thrown.getCause();
            }
        }
        try (Instance me = Instance.join()) {
            run(me, hosted);
        }
    }

    private static boolean isHosted(Class<?> type) {
        return Submodel.class.isAssignableFrom(type) || Mapper.class.isAssignableFrom(type);
    }

    /**
     * Makes an object of the class and has it run; for tests, with an instance made by {@link Alone}.
     *
     * @param me the instance
     * @param hosted a class derived from {@link Submodel} or {@link Mapper}
     * @throws Throwable whatever the class throws
     */
    public static void run(Instance me, Class<?> hosted) throws Throwable {
        if (!isHosted(hosted)) {
            throw new XmmlException(me.name() + ": " + hosted.getName()
                    + " must be derived from org.xmml.Submodel or org.xmml.Mapper, or have a main");
        }
        JOINED.set(me);
        try {
            var constructor = hosted.getDeclaredConstructor();
            constructor.setAccessible(true);
            Object program = constructor.newInstance();
            if (program instanceof Submodel submodel) {
                submodel.run();
            } else if (program instanceof Mapper mapper) {
                mapper.run();
            }
        } catch (NoSuchMethodException missing) {
            throw new XmmlException(me.name() + ": " + hosted.getName() + " has no constructor without arguments");
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        } finally {
            JOINED.remove();
        }
    }
}
