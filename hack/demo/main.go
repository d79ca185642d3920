// Command demo shows certplane's main job: from a request to a certificate that
// works. It runs a server in a temporary folder and types, step by step, the
// commands of a user.
package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: demo CERTPLANE")
	}
	program, err := filepath.Abs(os.Args[1])
	if err != nil {
		log.Fatalf("demo: %v", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := run(ctx, program); err != nil {
		log.Fatalf("demo: %v", err)
	}
}

func run(ctx context.Context, program string) (err error) {
	dir, err := os.MkdirTemp("", "certplane-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	d := &demo{program: program, dir: dir}
	if err := d.writeFiles(); err != nil {
		return err
	}
	server, err := d.startServer(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, d.stopServer(server)); err != nil {
			io.Copy(os.Stderr, &d.serverLog)
		}
	}()

	if err := d.doAll(ctx, steps); err != nil {
		return err
	}
	if err := d.verify(); err != nil {
		return err
	}
	return d.doAll(ctx, d.acmeSteps())
}

func (d *demo) doAll(ctx context.Context, steps []step) error {
	for _, step := range steps {
		if err := d.do(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(step.args, " "), err)
		}
	}
	return nil
}

// step is one command of the demo.
type step struct {
	say  string
	args []string
	// to is the file that takes the output instead of the screen.
	to string
	// run, if not nil, is run instead of certplane.
	run func(ctx context.Context) error
}

var steps = []step{
	{
		say:  "Alice makes a private key and a request for a client certificate:",
		args: strings.Fields("certplane request --signer kubernetes.io/kube-apiserver-client --cn alice --name alice --out alice --dry-run=client"),
		to:   "alice.yaml",
	},
	{say: "She submits the request:", args: strings.Fields("kubectl create -f alice.yaml")},
	{say: "It waits for a user who may approve it:", args: strings.Fields("kubectl get csr")},
	{say: "An administrator approves it:", args: strings.Fields("kubectl certificate approve alice")},
	{
		say:  "The signer answers with a certificate:",
		args: strings.Fields("kubectl wait csr/alice --for=jsonpath={.status.certificate} --timeout=30s"),
	},
	{args: strings.Fields("kubectl get csr")},
	{
		say:  "Alice fetches it:",
		args: strings.Fields("kubectl get csr alice --template={{.status.certificate|base64decode}}"),
		to:   "alice/tls.crt",
	},
	{
		say:  "With it the server recognizes her:",
		args: strings.Fields("kubectl auth whoami --client-certificate=alice/tls.crt --client-key=alice/tls.key"),
	},
}

type demo struct {
	program string
	dir     string
	// acmeAddress is where ACME clients reach the server, and webAddress where the
	// demo's client answers challenges.
	acmeAddress, webAddress string
	// serverLog is shown if the demo fails.
	serverLog bytes.Buffer
}

// startServer runs "certplane serve" and returns when it reports that it is
// ready.
func (d *demo) startServer(ctx context.Context) (*exec.Cmd, error) {
	fmt.Println("# A certificate control plane, with nothing but one program:")
	fmt.Println("$ certplane serve --data-dir data --listen 127.0.0.1:0 --config server.yaml &")
	server := exec.CommandContext(ctx, d.program, "serve", "--data-dir", "data", "--listen", "127.0.0.1:0", "--config", "server.yaml")
	server.Dir = d.dir
	server.Stderr = &d.serverLog
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	stdout, err := server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	first := make([]byte, 256)
	n, err := stdout.Read(first)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), server.Wait())
	}
	line, _, _ := strings.Cut(string(first[:n]), "\n")
	fmt.Println(line)
	go io.Copy(io.Discard, stdout)

	fmt.Println("\n# From here on \"kubectl\" is the one inside certplane. Any other works too.")
	fmt.Println("$ alias kubectl='certplane kubectl'; export KUBECONFIG=data/admin.kubeconfig")
	return server, nil
}

func (d *demo) stopServer(server *exec.Cmd) error {
	fmt.Println("\n# The server stops.")
	if err := server.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("stopping the server: %w", err)
	}
	if err := server.Wait(); err != nil {
		return fmt.Errorf("stopping the server: %w", err)
	}
	return nil
}

// do shows a step and runs it.
func (d *demo) do(ctx context.Context, s step) error {
	if s.say != "" {
		fmt.Printf("\n# %s\n", s.say)
	}
	shown := strings.Join(s.args, " ")
	if s.to != "" {
		shown += " > " + s.to
	}
	fmt.Printf("$ %s\n", shown)
	if s.run != nil {
		return s.run(ctx)
	}

	args := s.args[1:]
	if s.args[0] == "kubectl" {
		args = s.args
	}
	cmd := exec.CommandContext(ctx, d.program, args...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(d.dir, "data/admin.kubeconfig"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if s.to == "" {
		return cmd.Run()
	}
	file, err := os.Create(filepath.Join(d.dir, s.to))
	if err != nil {
		return err
	}
	cmd.Stdout = file
	return errors.Join(cmd.Run(), file.Close())
}

// verify checks the certificate against the server's client CA, as a relying
// party would.
func (d *demo) verify() error {
	fmt.Println("\n# And it verifies against the CA of the server:")
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(d.dir, "data/pki/client-ca.crt"))
	if err != nil {
		return err
	}
	roots.AppendCertsFromPEM(ca)
	issued, err := os.ReadFile(filepath.Join(d.dir, "alice/tls.crt"))
	if err != nil {
		return err
	}
	block, rest := pem.Decode(issued)
	if block == nil {
		return errors.New("the server's answer is not a certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	chain := x509.NewCertPool()
	chain.AppendCertsFromPEM(rest)
	_, err = cert.Verify(x509.VerifyOptions{Roots: roots, Intermediates: chain, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return err
	}
	fmt.Printf("alice/tls.crt: OK: %s, issued by %s, valid until %s\n", cert.Subject, cert.Issuer, cert.NotAfter.Format(time.RFC3339))
	return nil
}
