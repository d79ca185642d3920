package acmeclients

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// The addresses of the test host: the server's address, and the address of all names with
// certificates. Both are private, so the server may connect to them by default.
const (
	serverAddress = "10.77.0.1"
	nameAddress   = "10.77.0.2"
)

// insideEnv marks the process in the separate host environment. Its value is an empty
// folder, which the process outside removes.
const insideEnv = "CERTPLANE_TEST_ACME_HOST"

// runOnOwnHost runs this program again in a separate host environment, and returns its
// exit code. There, the network is a loopback interface, all ports are free, and changes
// of /etc, /usr/local and /var, and all processes, are lost at the end. It returns an
// error if the kernel does not permit this.
func runOnOwnHost() (code int, err error) {
	scratch, err := os.MkdirTemp("", "certplane-acme-clients-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(scratch)
	self := exec.Command("/proc/self/exe", os.Args[1:]...)
	self.Args[0] = os.Args[0]
	self.Env = append(os.Environ(), insideEnv+"="+scratch)
	self.Stdin, self.Stdout, self.Stderr = os.Stdin, os.Stdout, os.Stderr
	self.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Getuid() != 0 {
		self.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		self.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		self.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if err := self.Start(); err != nil {
		return 0, fmt.Errorf("making namespaces: %w", err)
	}
	_ = self.Wait()
	return self.ProcessState.ExitCode(), nil
}

// setUpHost makes the host of the tests of the namespaces of this process. scratch is
// an empty folder.
func setUpHost(scratch string) error {
	for _, do := range []func(string) error{mountFiles, startLoopback, writeResolver} {
		if err := do(scratch); err != nil {
			return err
		}
	}
	return nil
}

func mountFiles(scratch string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounting without others: %w", err)
	}
	if err := unix.Mount("tmpfs", scratch, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting a file system in memory: %w", err)
	}
	for _, dir := range []string{"/etc", "/usr/local", "/var"} {
		upper, work := filepath.Join(scratch, dir, "upper"), filepath.Join(scratch, dir, "work")
		for _, folder := range []string{upper, work} {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
		}
		options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", dir, upper, work)
		if err := unix.Mount("overlay", dir, "overlay", 0, options); err != nil {
			return fmt.Errorf("mounting a layer over %s: %w", dir, err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return nil
}

// startLoopback starts the loopback interface and gives it the addresses.
func startLoopback(string) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("starting the loopback interface: %w", err)
	}
	for i, address := range []string{serverAddress, nameAddress} {
		alias, err := unix.NewIfreq(fmt.Sprintf("lo:%d", i+1))
		if err != nil {
			return err
		}
		if err := alias.SetInet4Addr(net.ParseIP(address).To4()); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, alias); err != nil {
			return fmt.Errorf("giving the loopback interface the address %s: %w", address, err)
		}
	}
	return nil
}

// writeResolver has programs ask the DNS server of the tests.
func writeResolver(string) error {
	for file, text := range map[string]string{
		"/etc/resolv.conf":   "nameserver 127.0.0.1\n",
		"/etc/hosts":         "127.0.0.1 localhost\n",
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	} {
		// A container may have mounted them, which the layer over /etc does not show.
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
