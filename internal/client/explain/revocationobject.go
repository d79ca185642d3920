package explain

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

var revocationKind = kind{
	verb: "revocation", noun: "Revocation", resource: "revocations." + v1alpha1.GroupName,
	install: []Step{{Text: "'certplane serve' serves this kind; in a cluster, 'certplane manifests' installs it."}}, new: func() client.Object { return &v1alpha1.Revocation{} },
}

// OfRevocation explains a Revocation.
func OfRevocation(ctx context.Context, api Reader, q Query) (ObjectExplanation, error) {
	o := &v1alpha1.Revocation{}
	if err := revocationKind.get(ctx, api, q, o); err != nil {
		return ObjectExplanation{}, err
	}
	e := explainedObject(o)
	e.Content = append(fields("reason", string(o.Spec.Reason), "message", o.Spec.Message), revokedBy(o.Status)...)
	e.Content = append(e.Content, selectionFields(o.Spec)...)
	e.Checks, _ = conditionChecks(o.Status.Conditions, o.Name)
	e.Verdict = revocationVerdict(o)
	if !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.RevocationListed) {
		e.Next = append(e.Next, step("To see whether the server can sign its lists:", q.Certplane("check")))
	}
	return e, e.report(ctx, api, o)
}

// revocationVerdict says what was revoked, and whether all lists have it.
func revocationVerdict(o *v1alpha1.Revocation) string {
	text := fmt.Sprintf("%s revoked %d certificates", o.Name, o.Status.Recorded)
	if o.Status.Recorded == 1 {
		text = o.Name + " revoked 1 certificate"
	}
	if o.Status.AlreadyRevoked > 0 {
		text += fmt.Sprintf(" (%d were revoked before)", o.Status.AlreadyRevoked)
	}
	switch listed := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.RevocationListed); {
	case meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.RevocationListed):
		return text + ", and all revocation lists have them"
	case listed != nil:
		return text + ", but not in all revocation lists: " + listed.Message
	}
	return text + "; no revocation list is known to have them"
}

func revokedBy(s v1alpha1.RevocationStatus) []ObjectField {
	var all []ObjectField
	if s.RequestedBy != nil {
		all = append(all, ObjectField{"revoked by", s.RequestedBy.Username})
	}
	if s.Time != nil {
		all = append(all, ObjectField{"revoked on", s.Time.UTC().Format(time.RFC3339)})
	}
	if s.Ends != nil {
		all = append(all, ObjectField{"last certificate ends", s.Ends.UTC().Format(time.RFC3339)})
	}
	return all
}

// selectionFields says which certificates are meant.
func selectionFields(spec v1alpha1.RevocationSpec) []ObjectField {
	s := spec.Selection
	if s == nil {
		return fields("certificates named", fmt.Sprint(len(spec.Certificates)))
	}
	list := func(values []string) string { return strings.Join(values, ", ") }
	all := fields("signers", list(s.Signers), "requesters", list(s.Requesters), "names", list(s.Names), "nodes", list(s.Nodes), "namespaces", list(s.Namespaces),
		"key identifiers of CAs", list(s.AuthorityKeyIDs), "SHA-256 of keys", list(s.KeyFingerprints), "labels", s.Labels)
	if s.IssuedBefore != nil {
		all = append(all, ObjectField{"issued before", s.IssuedBefore.UTC().Format(time.RFC3339)})
	}
	return all
}
