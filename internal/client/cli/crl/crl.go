// Package crl writes the revocation lists of a signer.
package crl

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/revocation"
)

// Config selects the signer whose lists to write.
type Config struct {
	// Signer is the name of the signer.
	Signer string
	// Connect returns the configuration of the connection.
	Connect func() (*rest.Config, error)
	// Kubectl returns a command line of kubectl for the same server.
	Kubectl func(words ...string) string
	Now     time.Time
	// The lists are written to Stdout, warnings to Stderr.
	Stdout, Stderr io.Writer
}

// Run writes the lists of all CAs of a signer, and of the CAs above them.
func Run(ctx context.Context, cfg Config) error {
	config, err := cfg.Connect()
	if err != nil {
		return err
	}
	api, err := certificates.Connect(config)
	if err != nil {
		return err
	}
	lists, err := cfg.find(ctx, api)
	if err != nil {
		return err
	}
	for _, ca := range lists.Missing {
		fmt.Fprintf(cfg.Stderr, "Warning: %s has no revocation list: programs that check every CA of the chain refuse all certificates\n", print.Printable(ca))
	}
	data, err := cfg.encode(ctx, config, slices.Concat(lists.Own, lists.Above))
	if err != nil {
		return err
	}
	_, err = cfg.Stdout.Write(data)
	return err
}

// find returns the lists for the signer's certificates.
func (cfg Config) find(ctx context.Context, api client.Client) (revocation.SignerLists, error) {
	all := &inventoryv1alpha1.RevocationListList{}
	if err := api.List(ctx, all); err != nil {
		return revocation.SignerLists{}, exit.Advise("listing revocationlists.inventory.certplane.dev", err)
	}
	var names []string
	var lists []*inventoryv1alpha1.RevocationList
	for n := range all.Items {
		names = append(names, all.Items[n].SignerNames...)
		lists = append(lists, &all.Items[n])
	}
	found, err := revocation.OfSigner(lists, cfg.Signer, nil, cfg.Now)
	if err != nil || len(found.Own) > 0 {
		return found, err
	}
	hint := ""
	if near := print.Near(cfg.Signer, names); near != "" {
		hint = ": did you mean " + near + "?"
	}
	return found, exit.WithNext(fmt.Errorf("found no revocation list of the signer %s%s", cfg.Signer, hint),
		"A CA whose certificate lacks the key usage cRLSign has none. To see all lists:", "  "+cfg.Kubectl("get", "revocationlists", "-o", "wide"))
}

// encode returns lists in PEM.
func (cfg Config) encode(ctx context.Context, config *rest.Config, lists []revocation.Published) ([]byte, error) {
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	var ders [][]byte
	for _, list := range lists {
		der, err := server.RESTClient().Get().AbsPath("/apis", inventoryv1alpha1.GroupVersion.String(), "revocationlists", list.Name, "content").DoRaw(ctx)
		if err != nil {
			return nil, exit.Advise("reading the revocation list of "+list.Subject, err)
		}
		if _, err := list.Check(der, cfg.Now); err != nil {
			return nil, err
		}
		ders = append(ders, der)
	}
	return revocation.EncodeLists(ders...), nil
}

const (
	fetchTimeout = time.Minute
	// maxSize limits what is read, in bytes. A list of a million certificates has 50 MB.
	maxSize = 128 << 20
)

// Read returns the lists in a file or at a URL, in PEM or DER. A URL can be anybody's: only the
// signature of a list says whose it is.
func Read(ctx context.Context, from string) ([]*x509.RevocationList, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	source, err := open(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("reading a revocation list: %w", err)
	}
	defer source.Close()
	data, err := io.ReadAll(io.LimitReader(source, maxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", from, err)
	case len(data) > maxSize:
		return nil, fmt.Errorf("reading %s: it is larger than %d MiB", from, maxSize>>20)
	}
	lists, err := revocation.ParseLists(data)
	if err != nil {
		return nil, fmt.Errorf("%s has %w", from, err)
	}
	return lists, nil
}

func open(ctx context.Context, from string) (io.ReadCloser, error) {
	if !strings.HasPrefix(from, "http://") && !strings.HasPrefix(from, "https://") {
		return os.Open(from)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err == nil && response.StatusCode != http.StatusOK {
		response.Body.Close()
		err = fmt.Errorf("%s answers %s", from, print.Printable(response.Status))
	}
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}
