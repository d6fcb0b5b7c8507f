! xMML for Fortran: what a submodel needs to take part in a coupled model. docs/fortran.md explains it.
module xmml
    use xmml_c, only: @constants@, xmml_scale, xmml_port, xmml_block
    use xmml_values, only: xmml_value, xmml_message, xmml_list, xmml_map, xmml_nothing, xmml_bytes
    use xmml_instances, only: xmml_instance, xmml_out_port, xmml_in_port, xmml_version, xmml_error, xmml_no_time, xmml_dtype_name
    use xmml_alones, only: xmml_alone
    implicit none
    public
end module
