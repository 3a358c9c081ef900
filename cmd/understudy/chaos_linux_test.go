package main_test

import "syscall"

// dieWithTest has a child killed when the test is: nothing is left running.
func dieWithTest() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
