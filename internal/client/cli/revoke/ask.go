package revoke

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// maxOverview is the maximum number of records that are read to describe a selection.
const maxOverview = 10_000

// overview returns the records of a selection, none if they are too many, or if the caller may
// not read them.
func (cfg Config) overview(ctx context.Context, c client.Client, before time.Time) []inventoryv1alpha1.IssuedCertificate {
	search := cfg.Which.inInventory(cfg.Now())
	search.WithoutOwn, search.Until, search.Limit = true, before, maxOverview
	search.Matches = func(r *inventoryv1alpha1.IssuedCertificate) bool { return r.Revocation == nil && cfg.Which.matches(r) }
	found, more, err := certificates.Find(ctx, c, search)
	if err != nil || more {
		return nil // the server has counted, and the question is asked without details
	}
	return found
}

// text describes what is revoked, such as "57 certificates of 2 signers, requested by 3
// users".
func (a act) text() string {
	if a.count == 1 && len(a.records) == 1 {
		return describe(&a.records[0])
	}
	text := amount(a.count, "certificate")
	if len(a.records) > 0 {
		text += fmt.Sprintf(" of %s, requested by %s", amount(len(count(a.records, signerOf)), "signer"), amount(len(count(a.records, requesterOf)), "user"))
	}
	return text
}

func signerOf(r *inventoryv1alpha1.IssuedCertificate) string    { return r.SignerName }
func requesterOf(r *inventoryv1alpha1.IssuedCertificate) string { return r.Request.Requester }

func amount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// count returns how many records have each value.
func count(records []inventoryv1alpha1.IssuedCertificate, of func(*inventoryv1alpha1.IssuedCertificate) string) map[string]int {
	counts := map[string]int{}
	for i := range records {
		counts[of(&records[i])]++
	}
	return counts
}

// describe describes a certificate in a line.
func describe(r *inventoryv1alpha1.IssuedCertificate) string {
	return print.Printable(fmt.Sprintf("%s (%s, serial %s)", inventory.ShownNames(&r.Certificate), r.SignerName, r.Certificate.SerialNumber))
}

// confirm returns an error unless a person, or a flag, confirms what needs it.
func (cfg Config) confirm(ctx context.Context, a act) error {
	if cfg.Yes != 0 {
		if cfg.Yes == a.count {
			return nil
		}
		return fmt.Errorf("--yes is %d, but this revokes %s: nothing was revoked", cfg.Yes, a.text())
	}
	if a.spec.Selection == nil && a.danger == "" {
		return nil
	}
	question := "This revokes " + a.text() + "."
	if a.danger != "" {
		question = print.Printable(a.danger) + "\n" + question
	}
	if cfg.Terminal == nil {
		fmt.Fprintln(cfg.Stderr, question)
		return exit.WithNext(errors.New("not confirmed: nothing was revoked"), fmt.Sprintf("Without a terminal, confirm the number: --yes %d", a.count))
	}
	fmt.Fprintf(cfg.Stderr, "%s Type %d to go on: ", question, a.count)
	line, err := readLine(ctx, cfg)
	if err != nil {
		return err
	}
	if line != strconv.Itoa(a.count) {
		return errors.New("not confirmed: nothing was revoked")
	}
	return nil
}

// readLine reads a line from the terminal. The goroutine exists until the program ends if the
// context ends before the line does: a read cannot be interrupted.
func readLine(ctx context.Context, cfg Config) (string, error) {
	read := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(cfg.Terminal).ReadString('\n')
		read <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case line := <-read:
		return line, nil
	}
}

// shownNames is the maximum number of certificates that are listed one by one.
const shownNames = 10

// tryOut shows what would be revoked. The server checks it.
func (cfg Config) tryOut(ctx context.Context, c client.Client, a act) error {
	if a.spec.Selection == nil { // otherwise the server has counted it already
		if _, err := cfg.try(ctx, c, a.spec); err != nil {
			return err
		}
	}
	p := &print.Page{}
	p.Line("would revoke " + a.text() + ", " + cfg.Reason)
	if a.count > 1 && len(a.records) > 0 {
		of := func(r *inventoryv1alpha1.IssuedCertificate) string {
			return r.SignerName + "\n" + print.OrDash(r.Request.Requester)
		}
		counts := count(a.records, of)
		rows := [][]string{{"SIGNER", "REQUESTER", "CERTIFICATES"}}
		for _, key := range sortedByCount(counts) {
			rows = append(rows, append(strings.SplitN(key, "\n", 2), strconv.Itoa(counts[key])))
		}
		p.Section("By signer and requester:", rows)
		var names [][]string
		for i := range a.records[:min(len(a.records), shownNames)] {
			names = append(names, []string{describe(&a.records[i])})
		}
		p.Section(fmt.Sprintf("The first %d, by their end:", len(names)), names)
	}
	fmt.Fprint(cfg.Stdout, p.String())
	fmt.Fprintf(cfg.Stderr, "Nothing was revoked. To revoke this, and no other number of certificates, omit --dry-run and add --yes %d.\n", a.count)
	return nil
}

// sortedByCount returns the keys with the highest count first.
func sortedByCount(counts map[string]int) []string {
	var keys []string
	for key := range counts {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	return keys
}
