//go:build !linux

package main_test

import "syscall"

func dieWithTest() *syscall.SysProcAttr { return nil }
