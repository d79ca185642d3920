package socket_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/acme/solver/socket"
)

const field = "acme.http01.listen"

func TestParse(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{":80", ""},
		{"0.0.0.0:80", ""},
		{"[::]:80", ""},
		{"localhost:8089", ""},
		{"unix:/run/certplane/http01.sock", ""},
		{"fd:http01", ""},
		{"", `"" is not HOST:PORT, unix:PATH or fd:NAME`},
		{"80", `"80" is not HOST:PORT, unix:PATH or fd:NAME`},
		{":http", `":http" has the port "http": want a number up to 65535`},
		{":65536", `":65536" has the port "65536": want a number up to 65535`},
		{"unix:http01.sock", `"http01.sock" is not an absolute path: want unix:/run/NAME.sock`},
		{"unix:/" + strings.Repeat("a", 103), "the path of a Unix socket has 104 bytes: at most 103 are possible"},
		{"fd:", `"fd:" is not fd:NAME, with the name of a socket of systemd (FileDescriptorName)`},
		{"fd:a:b", `"fd:a:b" is not fd:NAME, with the name of a socket of systemd (FileDescriptorName)`},
	} {
		address, err := socket.Parse(tc.text)
		if got := text(err); got != tc.want {
			t.Errorf("%q: error %q, want %q", tc.text, got, tc.want)
		}
		if err == nil && address.String() != tc.text {
			t.Errorf("%q became %q", tc.text, address)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCheck(t *testing.T) {
	if got, want := text(socket.Check(field, []string{":80", ":80"})), `acme.http01.listen[1]: ":80" is listed twice`; got != want {
		t.Errorf("error %q", got)
	}
	if err := socket.Check(field, []string{"0.0.0.0:80", "[::]:80"}); err != nil {
		t.Error(err)
	}
}

// The message at the start names the field, the address and the cause.
func TestTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	path := filepath.Join(t.TempDir(), "s")
	_, err = socket.Listen(t.Context(), field, []string{"unix:" + path, address}, socket.Inherited{})
	want := "acme.http01.listen[1]: listening on " + strconv.Quote(address)
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "address already in use: another program listens there") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the first address stays open: %v", err)
	}
}

// One address of each family can be listened on at the same port.
func TestFamilies(t *testing.T) {
	all, err := socket.Listen(t.Context(), field, []string{"0.0.0.0:0"}, socket.Inherited{})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close(all)
	_, port, _ := net.SplitHostPort(all[0].Addr().String())
	six, err := socket.Listen(t.Context(), field, []string{"[::]:" + port}, socket.Inherited{})
	if err != nil && strings.Contains(err.Error(), "family not supported") {
		t.Skip("this host has no IPv6")
	}
	if err != nil {
		t.Fatal(err)
	}
	socket.Close(six)
}

func TestUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listen := func() ([]net.Listener, error) {
		return socket.Listen(t.Context(), field, []string{"unix:" + path}, socket.Inherited{})
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(); err == nil || !strings.Contains(err.Error(), "there is a file that is not a socket") {
		t.Errorf("over a file: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen(); err == nil || !strings.Contains(err.Error(), "another program listens there") {
		t.Errorf("over a socket in use: %v", err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	all, err := listen()
	if err != nil {
		t.Fatalf("over a socket that was left behind: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	socket.Close(all)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket stays: %v", err)
	}
}

const childVariable = "CERTPLANE_TEST_SOCKET_CHILD"

// systemd starts processes with open sockets.
func TestInherited(t *testing.T) {
	var files []*os.File
	var addresses []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files, addresses = append(files, file), append(addresses, l.Addr().String())
	}
	child := exec.Command(os.Args[0], "-test.run=^TestInheritedChild$", "-test.v")
	child.Env = append(os.Environ(), childVariable+"="+strings.Join(addresses, ","))
	child.ExtraFiles = files
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "listens on all") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestInheritedChild(t *testing.T) {
	want := os.Getenv(childVariable)
	if want == "" {
		t.Skip("it runs in a process of TestInherited")
	}
	env := map[string]string{"LISTEN_PID": strconv.Itoa(os.Getpid()), "LISTEN_FDS": "2", "LISTEN_FDNAMES": "http01:tls"}
	inherited := socket.FromEnvironment(func(name string) string { return env[name] }, os.Getpid())
	all, err := socket.Listen(context.Background(), field, []string{"fd:http01", "fd:tls"}, inherited)
	if err != nil {
		t.Fatal(err)
	}
	if got := all[0].Addr().String() + "," + all[1].Addr().String(); got != want {
		t.Fatalf("listens on %s, want %s", got, want)
	}
	socket.Close(all)
	if all, err = socket.Listen(context.Background(), field, []string{"fd:http01"}, inherited); err != nil {
		t.Fatalf("a second time: %v", err)
	}
	socket.Close(all)
	_, err = socket.Listen(context.Background(), field, []string{"fd:web"}, inherited)
	if text(err) != `acme.http01.listen[0]: listening on "fd:web": the process was not started with a socket of this name, but with http01, tls` {
		t.Fatalf("error %v", err)
	}
	fmt.Println("listens on all")
}

// Variables for another process, such as a parent, do not count.
func TestFromEnvironment(t *testing.T) {
	for _, env := range []map[string]string{
		nil,
		{"LISTEN_PID": "2", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "http01"},
		{"LISTEN_PID": "1", "LISTEN_FDS": "x", "LISTEN_FDNAMES": "http01"},
		{"LISTEN_PID": "1", "LISTEN_FDS": "1000000000", "LISTEN_FDNAMES": "http01"},
		{"LISTEN_PID": "1", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "http01"},
	} {
		inherited := socket.FromEnvironment(func(name string) string { return env[name] }, 1)
		if _, err := socket.Listen(t.Context(), field, []string{"fd:http01"}, inherited); err == nil || !strings.Contains(err.Error(), "the process was not started with a socket of this name") {
			t.Errorf("%v: %v", env, err)
		}
	}
}
