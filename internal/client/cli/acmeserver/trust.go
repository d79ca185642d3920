package acmeserver

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/atomicfile"
)

// TrustConfig names the server that a host shall trust.
type TrustConfig struct {
	Config
	// Server is the URL of a directory, or the name of an AcmeEndpoint. The directory and
	// the fingerprint of an AcmeEndpoint are read from the API.
	Server string
	// Fingerprints are the fingerprints of trusted roots.
	Fingerprints []string
	// Out is the file for the roots; empty for the trust store of the system.
	Out string
	// Store is the trust store of the system.
	Store Store
	// Terminal is the terminal that asks for confirmation; nil without one.
	Terminal io.Reader
}

// digests is the prefix of fingerprints.
const digests = "SHA256:"

// ParseFingerprint returns a SHA-256 fingerprint in lower-case hexadecimal digits. It
// accepts the formats of this program and of openssl, with or without prefix and colons.
func ParseFingerprint(text string) (string, error) {
	digits := text
	if before, after, found := strings.Cut(text, "="); found && strings.Contains(strings.ToLower(before), "fingerprint") {
		digits = after // of openssl x509 -fingerprint
	}
	if len(digits) > len(digests) && strings.EqualFold(digits[:len(digests)], digests) {
		digits = digits[len(digests):]
	}
	digits = strings.ToLower(strings.ReplaceAll(digits, ":", ""))
	if len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q is not a SHA-256 fingerprint, %s and 64 hexadecimal digits", text, digests)
	}
	return digits, nil
}

// Trust fetches the roots of an ACME server, compares their fingerprints, and writes the
// trusted roots. A fingerprint names one root. The server's other roots are written if
// the server has proven its identity with a certificate from a root with such a
// fingerprint.
func Trust(ctx context.Context, cfg TrustConfig) error {
	known, err := cfg.known()
	if err != nil {
		return err
	}
	url := cfg.Server
	if !strings.Contains(url, "://") {
		if url, known, err = cfg.lookUp(ctx, known); err != nil {
			return err
		}
	}
	served, err := fetchRoots(ctx, url)
	if err != nil {
		return err
	}
	if len(known) == 0 {
		if known, err = cfg.ask(served); err != nil {
			return err
		}
	}
	trusted, err := served.trusted(known, cfg.Now())
	if err != nil {
		return err
	}
	if left := len(served.roots) - len(trusted); left > 0 {
		fmt.Fprintf(cfg.Stderr, "Note: %d of the server's roots were not written: the server did not prove them. To trust them, give their fingerprints.\n", left)
	}
	return cfg.write(served.host, trusted)
}

func (cfg TrustConfig) known() ([]string, error) {
	var known []string
	for _, text := range cfg.Fingerprints {
		digits, err := ParseFingerprint(text)
		if err != nil {
			return nil, err
		}
		known = append(known, digits)
	}
	return known, nil
}

// lookUp returns the directory of an endpoint, and its fingerprint if none is given.
func (cfg TrustConfig) lookUp(ctx context.Context, known []string) (url string, fingerprints []string, err error) {
	c, err := cfg.Connect()
	if err != nil {
		return "", nil, exit.WithNext(err, "Without a kubeconfig, give the URL of the directory and its fingerprint: certplane acme trust https://... --fingerprint SHA256:...")
	}
	e, err := cfg.endpoint(ctx, c, cfg.Server)
	switch {
	case err != nil:
		return "", nil, err
	case e.Status.Directory == "":
		return "", nil, exit.WithNext(fmt.Errorf("the AcmeEndpoint %s has no directory yet", e.Name), "To see why: "+cfg.Command("acme", "endpoints", e.Name))
	case len(known) > 0:
		return e.Status.Directory, known, nil
	case e.Status.Trust == nil || e.Status.Trust.Fingerprint == "":
		return "", nil, exit.WithNext(fmt.Errorf("the AcmeEndpoint %s has no fingerprint: the root of the server's certificate is unknown", e.Name),
			"Hosts probably trust its certificate already. If not, set acmeServer.certificate.rootFile in the configuration.")
	}
	digits, err := ParseFingerprint(e.Status.Trust.Fingerprint)
	return e.Status.Directory, []string{digits}, err
}

// ask lets the user compare fingerprints. Without a terminal no root is trusted.
func (cfg TrustConfig) ask(served *servedRoots) ([]string, error) {
	p := &print.Page{}
	p.Line(served.host + " presents these roots:")
	var rows [][]string
	var all []string
	for _, root := range served.roots {
		all = append(all, pki.Fingerprint(root))
		rows = append(rows, []string{root.Subject.String(), digests + pki.Fingerprint(root), "until " + root.NotAfter.UTC().Format("2006-01-02")})
	}
	p.Table(rows)
	fmt.Fprint(cfg.Stderr, p.String())
	if cfg.Terminal == nil {
		return nil, exit.WithNext(errors.New("no root is trusted without a fingerprint: an attacker between this host and the server could present another root"),
			"Ask the administrator, who can read it with 'certplane acme endpoints', and give it with --fingerprint.")
	}
	fmt.Fprint(cfg.Stderr, "Did the administrator of the server confirm these fingerprints? Type yes to trust them: ")
	line, err := bufio.NewReader(io.LimitReader(cfg.Terminal, 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if strings.TrimSpace(line) != "yes" {
		return nil, errors.New("no root is trusted")
	}
	return all, nil
}

// write writes roots into the file or the trust store.
func (cfg TrustConfig) write(host string, trusted []*x509.Certificate) error {
	if cfg.Out == "" {
		return cfg.Store.Add(cfg.Stdout, host, trusted)
	}
	if err := atomicfile.Write(cfg.Out, pki.EncodeCertificates(trusted...), 0o644); err != nil {
		if errors.Is(err, os.ErrPermission) {
			return exit.WithNext(fmt.Errorf("writing the roots: %w", err), "Name a file that you may write with --out.")
		}
		return fmt.Errorf("writing the roots: %w", err)
	}
	var fingerprints []string
	for _, root := range trusted {
		fingerprints = append(fingerprints, digests+pki.Fingerprint(root))
	}
	slices.Sort(fingerprints)
	fmt.Fprintf(cfg.Stdout, "%s has the roots of %s\n", cfg.Out, host)
	for _, f := range fingerprints {
		fmt.Fprintln(cfg.Stdout, "  "+f)
	}
	return nil
}
