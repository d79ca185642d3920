package revoke

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// summary describes any number of certificates without keeping them.
type summary struct {
	count int
	// first are the first shownNames certificates.
	first []inventoryv1alpha1.IssuedCertificate
	// of counts certificates by their signer and requester.
	of map[[2]string]int
}

// shownNames is the maximum number of certificates that are listed one by one.
const shownNames = 10

func (s *summary) add(r *inventoryv1alpha1.IssuedCertificate) {
	if s.count++; s.count <= shownNames {
		s.first = append(s.first, *r)
	}
	if s.of == nil {
		s.of = map[[2]string]int{}
	}
	s.of[[2]string{r.SignerName, r.Request.Requester}]++
}

// text describes the certificates, such as "57 certificates of 2 signers, requested by 3
// users".
func (s *summary) text() string {
	if s.count == 1 {
		return describe(&s.first[0])
	}
	signers, requesters := map[string]bool{}, map[string]bool{}
	for of := range s.of {
		signers[of[0]], requesters[of[1]] = true, true
	}
	return fmt.Sprintf("%s of %s, requested by %s", amount(s.count, "certificate"), amount(len(signers), "signer"), amount(len(requesters), "user"))
}

// rows returns the number of certificates by signer and requester, the highest first.
func (s *summary) rows() [][]string {
	keys := slices.SortedFunc(maps.Keys(s.of), func(a, b [2]string) int {
		return cmp.Or(s.of[b]-s.of[a], strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1]))
	})
	rows := [][]string{{"SIGNER", "REQUESTER", "CERTIFICATES"}}
	for _, key := range keys {
		rows = append(rows, []string{key[0], print.OrDash(key[1]), strconv.Itoa(s.of[key])})
	}
	return rows
}

func amount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// countInto counts the certificates that the server would select now.
func (cfg Config) countInto(ctx context.Context, c client.Client, a *act) error {
	search := cfg.Which.inInventory(cfg.Now())
	search.WithoutOwn, search.Until = true, a.spec.Selection.IssuedBefore.Time
	search.Matches = func(r *inventoryv1alpha1.IssuedCertificate) bool {
		if inventory.Selects(a.spec.Selection, r) && !inventory.IsRevoked(r) {
			a.add(r)
			if cfg.isOwn(r) {
				a.danger = "One of them is the certificate of your own kubeconfig. The server will refuse it."
			}
		}
		return false // they need not be kept
	}
	_, _, err := certificates.Find(ctx, c, search)
	return err
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

// tryOut shows what would be revoked. The server checks it.
func (cfg Config) tryOut(ctx context.Context, c client.Client, a act) error {
	if _, err := cfg.try(ctx, c, a.spec); err != nil {
		return err
	}
	p := &print.Page{}
	p.Line("would revoke " + a.text() + ", " + cfg.Reason)
	if a.count > 1 {
		p.Section("By signer and requester:", a.rows())
		var names [][]string
		for i := range a.first {
			names = append(names, []string{describe(&a.first[i])})
		}
		p.Section("The first of them:", names)
	}
	fmt.Fprint(cfg.Stdout, p.String())
	fmt.Fprintf(cfg.Stderr, "Nothing was revoked. To revoke this, and no other number of certificates, omit --dry-run and add --yes %d.\n", a.count)
	return nil
}
