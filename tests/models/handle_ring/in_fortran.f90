! Offers a handle, asks by the one that it is offered, and adds up what it is asked.
program in_fortran
    use xmml
    implicit none
    type(xmml_instance) :: me
    type(xmml_value) :: handle, handles, offer, list
    type(xmml_message) :: offered
    integer :: number, question, total
    logical :: ended

    call me%join()
    do while (me%reuse())
        do while (me%step())
            handle = me%port_handle("questions", holders=1)
            handles = xmml_list()
            call handles%add(handle)
            offer = xmml_map()
            call offer%set("ask", handles)
            call me%send("offer", offer)
            call offer%free()
            call me%receive("offered", offered)
            list = offered%at("ask")
            call me%open("asked", list%item(1), number=number)
            do question = 0, 9
                call me%send("asked", question, to=number)
            end do
            call me%close("asked")
            total = 0
            do
                call me%receive("questions", question, ended=ended)
                if (ended) exit
                total = total + question
            end do
            print "(i0)", total
        end do
    end do
    call me%leave()
end program
