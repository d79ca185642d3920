package certmanager

import (
	"fmt"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// requester is the identity in a CertificateRequest.
type requester struct {
	username, uid string
	groups        []string
	extra         map[string][]string
}

func userOf(user authenticationv1.UserInfo) requester {
	who := requester{username: user.Username, uid: user.UID, groups: user.Groups}
	for key, values := range user.Extra {
		if who.extra == nil {
			who.extra = map[string][]string{}
		}
		who.extra[key] = values
	}
	return who
}

func requesterOf(cr *cmv1.CertificateRequest) requester {
	return requester{cr.Spec.Username, cr.Spec.UID, cr.Spec.Groups, cr.Spec.Extra}
}

// setRequester writes the identity of the user who creates a
// CertificateRequest, whatever the client has sent.
func setRequester(r Request) error {
	if !r.Changes() {
		return nil
	}
	who := userOf(r.User)
	extra := make(map[string]any, len(who.extra))
	for key, values := range who.extra {
		extra[key] = anySlice(values)
	}
	for _, set := range []struct {
		field string
		value any
		empty bool
	}{
		{"username", who.username, who.username == ""},
		{"uid", who.uid, who.uid == ""},
		{"groups", anySlice(who.groups), len(who.groups) == 0},
		{"extra", extra, len(extra) == 0},
	} {
		if set.empty {
			unstructured.RemoveNestedField(r.Object.Object, "spec", set.field)
		} else if err := unstructured.SetNestedField(r.Object.Object, set.value, "spec", set.field); err != nil {
			return fmt.Errorf("setting the requester: %w", err)
		}
	}
	return nil
}

func anySlice(values []string) []any {
	out := make([]any, len(values))
	for i, value := range values {
		out[i] = value
	}
	return out
}

// checkRequester checks the identity again: other webhooks may have changed the
// object after setRequester.
func checkRequester(r Request, o objects) error {
	if !r.isRequest("") && !r.isRequest("status") {
		return nil
	}
	who := requesterOf(o.new.(*cmv1.CertificateRequest))
	if r.Operation == admissionv1.Create {
		return who.differences(userOf(r.User), "identity must be that of the requester").ToAggregate()
	}
	return who.differences(requesterOf(o.old.(*cmv1.CertificateRequest)), "identity cannot be changed once set").ToAggregate()
}

func (r requester) differences(from requester, why string) field.ErrorList {
	var errs field.ErrorList
	for _, part := range []struct {
		name string
		same bool
	}{
		{"uid", r.uid == from.uid},
		{"username", r.username == from.username},
		{"groups", sameMembers(r.groups, from.groups)},
		{"extra", sameExtra(r.extra, from.extra)},
	} {
		if !part.same {
			errs = append(errs, field.Forbidden(field.NewPath("spec", part.name), part.name+" "+why))
		}
	}
	return errs
}

func sameExtra(a, b map[string][]string) bool {
	if len(a) != len(b) {
		return false
	}
	for key, values := range a {
		if others, has := b[key]; !has || !sameMembers(values, others) {
			return false
		}
	}
	return true
}

// sameMembers ignores the order.
func sameMembers(a, b []string) bool {
	return apiequality.Semantic.DeepEqual(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
