"""A model of a world that greets and a listener that writes the greetings down, and the rule of a workflow for it."""

#: What carries the model out for the number of a rule's output.
COMMAND = "xmml-run {input} -p world.number={wildcards.number} --result listener/heard.txt={output}"
_MODEL = """<model id="pair" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml">
  <definitions>
    <submodel id="World">
      <timescale delta="1 s" total="3 s"/>
      <param id="number" value="1"/>
      <ports> <out id="greeting" operator="Oi"/> </ports>
      <implementation><code language="python" part="Oi">{before}
greeting = me.param("number", int)</code></implementation>
    </submodel>
    <submodel id="Listener">
      <timescale delta="1 s" total="3 s"/>
      <ports> <in id="greeting" operator="S"/> </ports>
      <implementation>
        <code language="python" part="S">print(greeting, file=open("heard.txt", "a"))</code>
      </implementation>
    </submodel>
  </definitions>
  <topology>
    <instance id="world" submodel="World"/>
    <instance id="listener" submodel="Listener"/>
    <coupling from="world.greeting" to="listener.greeting"/>
  </topology>
</model>
"""


def model(before: str = "pass") -> str:
    """World says its number three times, and the listener writes it down; `before` is what World does first of all."""
    return _MODEL.format(before=before)
