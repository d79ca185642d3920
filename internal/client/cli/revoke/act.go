package revoke

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/process/worker"
)

// act is one act of revocation. It describes any number of certificates without keeping them.
type act struct {
	Config
	spec   v1alpha1.RevocationSpec
	number int
	// first are descriptions of the first shownNames certificates.
	first []string
	// of counts certificates by their signer and requester.
	of map[[2]string]int
	// danger is why the certificates are not revoked without a question; empty for none.
	danger string
}

// shownNames is the maximum number of certificates that are listed one by one.
const shownNames = 10

func (a *act) add(r *inventoryv1alpha1.IssuedCertificate) {
	if a.number++; a.number <= shownNames {
		a.first = append(a.first, print.Printable(fmt.Sprintf("%s (%s, serial %s)", inventory.ShownNames(&r.Certificate), r.SignerName, r.Certificate.SerialNumber)))
	}
	a.of[[2]string{r.SignerName, r.Request.Requester}]++
	switch {
	case a.isOwn(&r.Certificate):
		a.danger = "This revokes the certificate of your own kubeconfig. The server will refuse it."
	case r.Use != "" && a.danger == "":
		a.danger = "The server uses this certificate itself (" + r.Use + ")."
	}
}

// isOwn reports whether a certificate is the caller's. It does not compare fingerprints: a
// certificate can have two.
func (a *act) isOwn(facts *inventoryv1alpha1.CertificateFacts) bool {
	return a.Own != nil && facts.SerialNumber == a.Own.SerialNumber.Text(16) && facts.AuthorityKeyID == fmt.Sprintf("%x", a.Own.AuthorityKeyId)
}

// count adds the certificates that the server would select now.
func (a *act) count(ctx context.Context, c client.Client) error {
	search := a.Config.Config
	search.WithoutOwn, search.Until = true, a.spec.Selection.IssuedBefore.Time
	search.Matches = func(r *inventoryv1alpha1.IssuedCertificate) bool {
		if inventory.Selects(a.spec.Selection, r) && !inventory.IsRevoked(r) {
			a.add(r)
		}
		return false // they need not be kept
	}
	_, _, err := certificates.Find(ctx, c, search)
	return err
}

// selectAll prepares a selection. The server checks the rights, and says its time. What is
// issued after the count is not revoked.
func (a *act) selectAll(ctx context.Context, c client.Client) error {
	a.spec.Selection, a.spec.AtMost = a.selection(), math.MaxInt32
	// Times are in whole seconds: the certificates of this second must precede the count.
	if a.spec.Selection.IssuedBefore == nil && !worker.Sleep(ctx, time.Second) {
		return ctx.Err()
	}
	checked, err := a.create(ctx, client.NewDryRunClient(c))
	if err != nil {
		return err
	}
	if a.spec.Selection.IssuedBefore == nil {
		a.spec.Selection.IssuedBefore = checked.CreationTimestamp.DeepCopy()
	}
	if err := a.count(ctx, c); err != nil {
		return err
	}
	if a.number == 0 {
		return errors.New("no certificate matches that has neither ended nor been revoked: nothing was revoked")
	}
	a.spec.AtMost = int32(min(a.number, math.MaxInt32))
	return nil
}

// create creates the Revocation, or lets the server check it.
func (a *act) create(ctx context.Context, c client.Client) (*v1alpha1.Revocation, error) {
	created := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{GenerateName: a.generateName()}, Spec: *a.spec.DeepCopy()}
	err := c.Create(ctx, created)
	switch {
	case err == nil:
		return created, nil
	case apierrors.IsForbidden(err):
		return nil, exit.WithNext(fmt.Errorf("revoking: %w", err),
			"It requires create on revocations.certplane.dev, and the right to revoke on each signer:",
			"  certplane grant revoke --signer SIGNER --user USER",
			"Who may: "+a.Command("who-can", "revoke", "SIGNER"))
	case apierrors.IsInvalid(err) && strings.Contains(err.Error(), "spec.atMost"):
		return nil, exit.WithNext(exit.Advise("revoking", err), "The number has changed: nothing was revoked. Run the command again.")
	}
	return nil, exit.Advise("revoking", err)
}

// text describes the certificates, such as "57 certificates of 2 signers, requested by 3
// users".
func (a *act) text() string {
	if a.number == 1 {
		return a.first[0]
	}
	signers, requesters := map[string]bool{}, map[string]bool{}
	for of := range a.of {
		signers[of[0]], requesters[of[1]] = true, true
	}
	return fmt.Sprintf("%s of %s, requested by %s", print.Number(a.number, "certificate"), print.Number(len(signers), "signer"), print.Number(len(requesters), "user"))
}

// rows returns the number of certificates by signer and requester, the highest first.
func (a *act) rows() [][]string {
	keys := slices.SortedFunc(maps.Keys(a.of), func(x, y [2]string) int {
		return cmp.Or(a.of[y]-a.of[x], slices.Compare(x[:], y[:]))
	})
	rows := [][]string{{"SIGNER", "REQUESTER", "CERTIFICATES"}}
	for _, key := range keys {
		rows = append(rows, []string{key[0], print.OrDash(key[1]), strconv.Itoa(a.of[key])})
	}
	return rows
}

// confirm returns an error unless a person, or a flag, confirms what needs it.
func (a *act) confirm(ctx context.Context) error {
	switch {
	case a.Yes == a.number, a.Yes == 0 && a.spec.Selection == nil && a.danger == "":
		return nil
	case a.Yes != 0:
		return fmt.Errorf("--yes is %d, but this revokes %s: nothing was revoked", a.Yes, a.text())
	case a.danger != "":
		fmt.Fprintln(a.Stderr, print.Printable(a.danger))
	}
	question, refused := "This revokes "+a.text()+".", errors.New("not confirmed: nothing was revoked")
	if a.Terminal == nil {
		fmt.Fprintln(a.Stderr, question)
		return exit.WithNext(refused, fmt.Sprintf("Without a terminal, confirm the number: --yes %d", a.number))
	}
	fmt.Fprintf(a.Stderr, "%s Type %d to go on: ", question, a.number)
	typed := make(chan string, 1)
	go func() { // until the program ends, if the context ends first: a read cannot be interrupted
		line, _ := bufio.NewReader(a.Terminal).ReadString('\n')
		typed <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case line := <-typed:
		if line != strconv.Itoa(a.number) {
			return refused
		}
	}
	return nil
}

// tryOut shows what would be revoked. The server checks it.
func (a *act) tryOut(ctx context.Context, c client.Client) error {
	if _, err := a.create(ctx, client.NewDryRunClient(c)); err != nil {
		return err
	}
	p := &print.Page{}
	p.Line("would revoke " + a.text() + ", " + a.Reason)
	if a.number > 1 {
		p.Section("By signer and requester:", a.rows())
		p.Section("The first of them:", slices.Collect(slices.Chunk(a.first, 1)))
	}
	fmt.Fprint(a.Stdout, p.String())
	fmt.Fprintf(a.Stderr, "Nothing was revoked. To revoke this, and no other number of certificates, omit --dry-run and add --yes %d.\n", a.number)
	return nil
}

// report describes what was revoked.
func (a *act) report(revocation *v1alpha1.Revocation) string {
	p, status := &print.Page{}, revocation.Status
	switch {
	case status.Recorded == 0 && status.AlreadyRevoked > 0:
		p.Line("already revoked: " + a.text())
	case a.number > shownNames:
		p.Line("revoked " + a.text() + ", " + a.Reason)
	default:
		for _, certificate := range a.first {
			p.Line("revoked " + certificate + ", " + a.Reason)
		}
	}
	p.Line("recorded as Revocation " + revocation.Name)
	return p.String()
}
