// Package crl writes the revocation lists of a signer.
package crl

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// Formats are the values of Config.Output.
var Formats = []string{"pem", "der", "table"}

// Config selects the signer whose lists to write, and the output.
type Config struct {
	// Signer is the name of the signer.
	Signer string
	// Output is one of Formats.
	Output string
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
	lists, missing, err := cfg.find(ctx, api)
	if err != nil {
		return err
	}
	for _, ca := range missing {
		fmt.Fprintf(cfg.Stderr, "Warning: %s has no revocation list: programs that check every CA of the chain refuse all certificates\n", print.Printable(ca))
	}
	if cfg.Output == "table" {
		_, err = io.WriteString(cfg.Stdout, cfg.table(lists))
		return err
	}
	data, err := cfg.encode(ctx, config, lists)
	if err != nil {
		return err
	}
	_, err = cfg.Stdout.Write(data)
	return err
}

// find returns the lists of the signer's CAs, then those of the CAs above. missing are the
// names of CAs without a list.
func (cfg Config) find(ctx context.Context, api client.Client) (lists []inventoryv1alpha1.RevocationList, missing []string, err error) {
	all := &inventoryv1alpha1.RevocationListList{}
	if err := api.List(ctx, all); err != nil {
		return nil, nil, exit.Advise("listing revocationlists.inventory.certplane.dev", err)
	}
	var names []string
	for _, list := range all.Items {
		names = append(names, list.SignerNames...)
		if slices.Contains(list.SignerNames, cfg.Signer) {
			lists = append(lists, list)
		}
	}
	if len(lists) == 0 {
		found := ""
		if near := print.Near(cfg.Signer, names); near != "" {
			found = ": did you mean " + near + "?"
		}
		return nil, nil, exit.WithNext(fmt.Errorf("found no revocation list of the signer %s%s", cfg.Signer, found),
			"A CA whose certificate lacks the key usage cRLSign has none. To see all lists:", "  "+cfg.Kubectl("get", "revocationlists", "-o", "wide"))
	}
	slices.SortStableFunc(lists, func(a, b inventoryv1alpha1.RevocationList) int { return b.ThisUpdate.Compare(a.ThisUpdate.Time) })
	for _, list := range slices.Clone(lists) {
		chain, err := pki.ParseBundle([]byte(list.CACertificates))
		if err != nil {
			return nil, nil, fmt.Errorf("reading the CA certificates of the RevocationList %s: %w", list.Name, err)
		}
		for _, ca := range chain[1:] {
			named := func(l inventoryv1alpha1.RevocationList) bool { return l.Name == revocation.ListID(ca) }
			switch above := slices.IndexFunc(all.Items, named); {
			case above < 0:
				missing = append(missing, ca.Subject.String())
			case !slices.ContainsFunc(lists, named):
				lists = append(lists, all.Items[above])
			}
		}
	}
	slices.Sort(missing)
	return lists, slices.Compact(missing), nil
}

// encode returns the lists in the format of the output.
func (cfg Config) encode(ctx context.Context, config *rest.Config, lists []inventoryv1alpha1.RevocationList) ([]byte, error) {
	if cfg.Output == "der" && len(lists) > 1 && slices.Contains(lists[1].SignerNames, cfg.Signer) {
		return nil, exit.WithNext(fmt.Errorf("the signer %s has several CAs, but a DER file holds one list", cfg.Signer), "To write all of them: -o pem")
	}
	server, err := connect(config)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for _, list := range lists {
		der, err := server.Get().Resource("revocationlists").Name(list.Name).SubResource("content").DoRaw(ctx)
		if err != nil {
			return nil, exit.Advise("reading the revocation list of "+list.Subject, err)
		}
		if cfg.Output == "der" {
			return der, nil
		}
		if err := pem.Encode(&text, &pem.Block{Type: "X509 CRL", Bytes: der}); err != nil {
			return nil, fmt.Errorf("encoding a revocation list: %w", err)
		}
	}
	return text.Bytes(), nil
}

// connect returns a client for the subresources of RevocationLists.
func connect(config *rest.Config) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/apis", &inventoryv1alpha1.GroupVersion, scheme.Codecs.WithoutConversion()
	server, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return server, nil
}

func (cfg Config) table(lists []inventoryv1alpha1.RevocationList) string {
	rows := [][]string{{"CA", "NUMBER", "ENTRIES", "SIGNED", "ENDS", "STATE"}}
	for _, l := range lists {
		state := "current"
		if !l.Current {
			state = l.Message
		}
		ends := "ended"
		if left := l.NextUpdate.Sub(cfg.Now); left > 0 {
			ends = "in " + print.Span(left)
		}
		rows = append(rows, []string{
			l.Subject, strconv.FormatInt(l.Number, 10), strconv.FormatInt(l.Entries, 10), print.Ago(cfg.Now, l.ThisUpdate.Add(revocation.Backdate)), ends, state,
		})
	}
	return print.Columns(rows)
}
