/** What a submodel in Java needs to take part in a coupled model; {@link org.xmml.Instance} is where to begin. */
package org.xmml;
