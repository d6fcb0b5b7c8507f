! Ends as an error does, in the middle of a group. See ../test_pools_in_every_language.py.
program dying
    use xmml
    implicit none
    type(xmml_instance) :: me
    type(xmml_message) :: object

    call me%join()
    do while (me%reuse())
        call me%put_nothing("fields", "step=1")
        call me%group_begin("fields", "step=2")
        call me%put_nothing("fields")
        call me%put_nothing("fields")
        if (me%take("later", object)) error stop "in the middle of a group"
    end do
end program
