package check

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	listed "github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/crl"
	"github.com/certplane/certplane/internal/client/cli/hosts"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/rights"
)

const (
	// unlisted is how long a Revocation may wait for lists.
	unlisted = 5 * time.Minute
	// manyEntries is the number of entries of a list from which the CA should be replaced.
	manyEntries = 100_000
	// cacheable is how long proxies may keep a list, and answerIn how long they may take.
	cacheable, answerIn = 5 * time.Minute, 3 * time.Second
)

// revocations checks revocation lists, and whether Revocations are on them. Programs that
// check lists refuse all certificates of a CA whose list has ended.
func revocations(ctx context.Context, c *checker) []Check {
	connected, err := listed.Connect(c.Client)
	if err != nil {
		return []Check{failure(err)}
	}
	lists := &inventoryv1alpha1.RevocationListList{}
	if err := connected.List(ctx, lists); err != nil {
		return unread("revocationlists.inventory.certplane.dev", err)
	}
	if len(lists.Items) == 0 {
		return nil
	}
	var bad []Check
	oldest := c.now
	for _, list := range lists.Items {
		if check := c.list(&list); check.Result != OK {
			check.Next = append(check.Next, c.Line("kubectl", "describe", "revocationlist", list.Name))
			bad = append(bad, check)
		}
		if signed := signedAt(&list); signed.Before(oldest) && list.RenewBy.Before(&list.NextUpdate) {
			oldest = signed
		}
	}
	bad = append(bad, c.published(ctx, lists.Items)...)
	bad = append(bad, c.held(ctx)...)
	bad = append(bad, c.hostsBehind(ctx, lists.Items)...)
	checks := summed(bad, "%s current, the oldest was signed %s", are(len(lists.Items), "revocation list"), print.Ago(c.now, oldest))
	return append(checks, c.unlisted(ctx)...)
}

// published returns failed checks of lists that others do not get where certificates say. It
// ends with the first address that does not answer, as the others will not either.
func (c *checker) published(ctx context.Context, lists []inventoryv1alpha1.RevocationList) (bad []Check) {
	for _, list := range lists {
		if list.URL == "" || !list.Current {
			continue
		}
		found, err := c.publishedNumber(ctx, &list)
		switch {
		case err != nil:
			text := fmt.Sprintf("the revocation list of %s cannot be read from here where certificates say (revocation.url): %v", list.Subject, err)
			return append(bad, Check{Result: Failed, Text: text, Next: []string{"A listener serves it: revocation.listen. A proxy before that listener must pass GET " + list.URL}})
		case found < list.Number && c.now.Sub(signedAt(&list)) > cacheable:
			text := fmt.Sprintf("%s answers with list %d of %s, but list %d was signed %s", list.URL, found, list.Subject, list.Number, print.Ago(c.now, signedAt(&list)))
			bad = append(bad, Check{Result: Failed, Text: text, Next: []string{"A proxy before revocation.listen must not keep lists for longer than the header Cache-Control permits"}})
		}
	}
	return bad
}

// publishedNumber returns the number of the list that is served to everybody.
func (c *checker) publishedNumber(ctx context.Context, of *inventoryv1alpha1.RevocationList) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	lists, err := crl.Read(ctx, of.URL)
	if err != nil {
		return 0, err
	}
	ca, err := pki.ParseFirst([]byte(of.CACertificates))
	if err != nil {
		return 0, fmt.Errorf("reading the certificate of the CA: %w", err)
	}
	if err := lists[0].CheckSignatureFrom(ca); err != nil || lists[0].Number == nil {
		return 0, fmt.Errorf("%s has another list, which is not signed by the CA", of.URL)
	}
	return lists[0].Number.Int64(), nil
}

// held returns a failed check if the server signs no lists because its store was restored.
func (c *checker) held(ctx context.Context) []Check {
	mark := &corev1.ConfigMap{}
	switch err := c.api.Get(ctx, client.ObjectKey{Namespace: rights.ServeNamespace, Name: rights.RestoredStore}, mark); {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return []Check{failure(err)}
	}
	text := fmt.Sprintf("revocation lists are on hold: the store was restored from a backup of %s, so the server does not know what was revoked since", print.Printable(mark.Data[rights.RestoredFrom]))
	return []Check{{Result: Failed, Text: text, Next: []string{c.Line("revocation", "resume", "--from", "crl.pem"), c.Line("revocation", "resume", "--nothing")}}}
}

// hostsBehind returns warnings about hosts whose files lack the lists of two periods.
func (c *checker) hostsBehind(ctx context.Context, lists []inventoryv1alpha1.RevocationList) (bad []Check) {
	connected, err := kubernetes.NewForConfig(c.Client)
	if err != nil {
		return []Check{failure(err)}
	}
	found, _ := hosts.List(ctx, connected) // the topic Hosts has the error
	for _, host := range found {
		for _, file := range host.RevocationLists {
			of := slices.DeleteFunc(slices.Clone(lists), func(l inventoryv1alpha1.RevocationList) bool { return !slices.Contains(l.SignerNames, file.Signer) })
			if len(of) == 0 || len(file.Numbers) == 0 {
				continue
			}
			// Compare the lists that end first: the list of a root is valid for years.
			first := slices.MinFunc(of, func(a, b inventoryv1alpha1.RevocationList) int { return a.NextUpdate.Compare(b.NextUpdate.Time) })
			if behind := first.NextUpdate.Sub(file.NextUpdate); behind >= 2*first.RenewBy.Sub(signedAt(&first)) {
				text := fmt.Sprintf("host %s: the revocation lists in %s of %s/%s are %s older than the lists of the server", host.Name, file.Path, file.Namespace, file.Pod, print.Span(behind))
				bad = append(bad, Check{Result: Warning, Text: text, Next: []string{"On the host: certplane agent status"}})
			}
		}
	}
	return bad
}

func signedAt(list *inventoryv1alpha1.RevocationList) time.Time {
	return list.ThisUpdate.Add(revocation.Backdate)
}

func (c *checker) list(list *inventoryv1alpha1.RevocationList) Check {
	name, left := "the revocation list of "+list.Subject, list.NextUpdate.Sub(c.now)
	switch {
	case left <= 0:
		return Check{Result: Failed, Text: fmt.Sprintf("%s ended %s: programs that check it refuse all certificates of the CA", name, print.Ago(c.now, list.NextUpdate.Time))}
	case !list.Current:
		return Check{Result: Failed, Text: fmt.Sprintf("%s is not the last one: %s", name, list.Message)}
	case c.now.Sub(signedAt(list)) >= 2*list.RenewBy.Sub(signedAt(list)):
		return Check{Result: Failed, Text: fmt.Sprintf("%s was signed %s and not since, and ends in %s: the log of the server says why", name, print.Ago(c.now, signedAt(list)), print.Span(left))}
	case left < list.NextUpdate.Sub(list.ThisUpdate.Time)/4:
		return Check{Result: Warning, Text: fmt.Sprintf("%s ends in %s", name, print.Span(left))}
	case list.Entries > manyEntries:
		return Check{Result: Warning, Text: fmt.Sprintf("%s has %d entries: replace the CA", name, list.Entries)}
	}
	return Check{Result: OK}
}

// unlisted returns checks of Revocations that lists lack.
func (c *checker) unlisted(ctx context.Context) []Check {
	all := &v1alpha1.RevocationList{}
	if err := c.api.List(ctx, all); err != nil {
		return unread("revocations.certplane.dev", err)
	}
	if len(all.Items) == 0 {
		return nil
	}
	var bad []Check
	for _, r := range all.Items {
		check, since := Check{Result: Failed, Text: fmt.Sprintf("Revocation %s is not on the revocation lists", r.Name), Next: []string{c.Line("kubectl", "describe", "revocation", r.Name)}}, r.CreationTimestamp
		condition := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RevocationListed)
		if condition != nil {
			since, check.Text = condition.LastTransitionTime, check.Text+": "+condition.Message
			if condition.Reason == "NoList" {
				check.Result = Warning
			}
		}
		if c.now.Sub(since.Time) >= unlisted && (condition == nil || condition.Status != "True") {
			bad = append(bad, check)
		}
	}
	return summed(bad, "%s on the revocation lists", are(len(all.Items), "Revocation"))
}
