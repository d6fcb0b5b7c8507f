import xmml

with xmml.Instance() as me:
    while me.reuse():
        for field in me.objects("fields"):
            print(field["step"], field["sys.shape"], field.data.tolist())
