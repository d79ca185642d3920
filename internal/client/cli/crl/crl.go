// Package crl writes the revocation lists of a signer.
package crl

import (
	"context"
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
	lists, err := cfg.find(ctx, api)
	if err != nil {
		return err
	}
	for _, ca := range lists.Missing {
		fmt.Fprintf(cfg.Stderr, "Warning: %s has no revocation list: programs that check every CA of the chain refuse all certificates\n", print.Printable(ca))
	}
	if cfg.Output == "table" {
		_, err = io.WriteString(cfg.Stdout, cfg.table(slices.Concat(lists.Own, lists.Above)))
		return err
	}
	data, err := cfg.encode(ctx, config, lists)
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

// encode returns the lists in the format of the output.
func (cfg Config) encode(ctx context.Context, config *rest.Config, found revocation.SignerLists) ([]byte, error) {
	lists := slices.Concat(found.Own, found.Above)
	if cfg.Output == "der" {
		if len(found.Own) > 1 {
			return nil, exit.WithNext(fmt.Errorf("the signer %s has several CAs, but a DER file holds one list", cfg.Signer), "To write all of them: -o pem")
		}
		lists = found.Own
	}
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/apis", &inventoryv1alpha1.GroupVersion, scheme.Codecs.WithoutConversion()
	server, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	var ders [][]byte
	for _, list := range lists {
		der, err := server.Get().Resource("revocationlists").Name(list.Name).SubResource("content").DoRaw(ctx)
		if err != nil {
			return nil, exit.Advise("reading the revocation list of "+list.Subject, err)
		}
		if _, err := list.Check(der, cfg.Now); err != nil {
			return nil, err
		}
		ders = append(ders, der)
	}
	if cfg.Output == "der" {
		return ders[0], nil
	}
	return revocation.EncodeLists(ders...), nil
}

func (cfg Config) table(lists []revocation.Published) string {
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
