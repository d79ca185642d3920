package secret_test

import (
	"encoding/json"
	"maps"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/policy/issuance/secret"
)

// stored is the Secret as it is after an apply, managed fields included.
func stored(t testing.TB, applied *applycorev1.SecretApplyConfiguration) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: *applied.Name, Annotations: maps.Clone(applied.Annotations), Labels: maps.Clone(applied.Labels)}, Data: maps.Clone(applied.Data)}
	metadata := map[string]any{"f:annotations": fields(applied.Annotations), "f:labels": fields(applied.Labels)}
	for _, owner := range applied.OwnerReferences {
		s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{UID: *owner.UID})
		metadata["f:ownerReferences"] = map[string]any{`k:{"uid":"` + string(*owner.UID) + `"}`: map[string]any{}}
	}
	raw, err := json.Marshal(map[string]any{"f:metadata": metadata, "f:data": fields(applied.Data), "f:type": map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: secret.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(string(raw))}}
	return s
}

func fields[V any](m map[string]V) map[string]any {
	fields := make(map[string]any)
	for key := range m {
		fields["f:"+key] = map[string]any{}
	}
	return fields
}

// disown removes a field from those of the manager that has applied it.
func disown(path ...string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		var all map[string]any
		if err := json.Unmarshal(s.ManagedFields[0].FieldsV1.GetRawBytes(), &all); err != nil {
			panic(err)
		}
		set := all
		for _, name := range path[:len(path)-1] {
			set = set[name].(map[string]any)
		}
		delete(set, path[len(path)-1])
		raw, err := json.Marshal(all)
		if err != nil {
			panic(err)
		}
		s.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(string(raw))
	}
}

func TestDrift(t *testing.T) {
	tests := []struct {
		reason   string
		before   func(*fixture)       // the Secret is written
		after    func(*fixture)       // and asked for otherwise
		tamper   func(*corev1.Secret) // by another client
		owned    bool
		wasOwned bool
		want     secret.Drift
	}{
		{reason: "nothing"},
		{reason: "nothing, with everything", before: everything},
		{reason: "a label is wanted", after: template("l", ""), want: secret.TemplateMismatch},
		{reason: "a label is not wanted any more", before: template("l", ""), want: secret.TemplateMismatch, after: noTemplate},
		{reason: "an annotation is not wanted any more", before: template("", "a"), want: secret.TemplateMismatch, after: noTemplate},
		{reason: "a label was changed", before: template("l", ""), tamper: func(s *corev1.Secret) { s.Labels["l"] = "y" }, want: secret.TemplateMismatch},
		{reason: "a label was removed", before: template("l", ""), tamper: func(s *corev1.Secret) { delete(s.Labels, "l") }, want: secret.TemplateMismatch},
		{reason: "a template that wants what is ours", before: func(f *fixture) {
			f.crt.Spec.SecretTemplate = &cmv1.CertificateSecretTemplate{Annotations: map[string]string{cmv1.CertificateNameKey: "x"}, Labels: map[string]string{cmv1.PartOfCertManagerControllerLabelKey: "x"}}
		}},
		{reason: "somebody else's label", tamper: func(s *corev1.Secret) { s.Labels["other"] = "x" }},
		{reason: "somebody else's data", tamper: func(s *corev1.Secret) { s.Data["other"] = nil }},
		{reason: "the attention label was removed", tamper: func(s *corev1.Secret) { s.Labels = nil }, want: secret.MetadataMismatch},
		{reason: "the common name was changed", tamper: func(s *corev1.Secret) { s.Annotations[cmv1.CommonNameAnnotationKey] = "x" }, want: secret.MetadataMismatch},
		{reason: "the name of the Certificate was removed", tamper: func(s *corev1.Secret) { delete(s.Annotations, cmv1.CertificateNameKey) }, want: secret.MetadataMismatch},
		{reason: "DER is wanted", after: formats(cmv1.CertificateOutputFormatDER), want: secret.OutputFormatsMismatch},
		{reason: "DER is not wanted any more", before: formats(cmv1.CertificateOutputFormatDER), after: func(f *fixture) { f.crt.Spec.AdditionalOutputFormats = nil }, want: secret.OutputFormatsMismatch},
		{reason: "DER was changed", before: formats(cmv1.CertificateOutputFormatDER), tamper: func(s *corev1.Secret) { s.Data["key.der"] = []byte("x") }, want: secret.OutputFormatsMismatch},
		{reason: "keystores are wanted", after: keystores, want: secret.KeystoreMismatch},
		{reason: "keystores are not wanted any more", before: keystores, after: func(f *fixture) { f.crt.Spec.Keystores = nil }, want: secret.KeystoreMismatch},
		{reason: "a truststore was removed", before: keystores, tamper: func(s *corev1.Secret) { delete(s.Data, "truststore.p12") }, want: secret.KeystoreMismatch},
		{reason: "another alias", before: keystores, after: func(f *fixture) { f.crt.Spec.Keystores.JKS.Alias = ptr.To("x") }, want: secret.KeystoreMismatch},
		{reason: "a keystore was changed", before: keystores, tamper: func(s *corev1.Secret) { s.Data["keystore.p12"] = s.Data["truststore.p12"] }, want: secret.KeystoreMismatch},
		{reason: "a Java keystore was changed", before: keystores, tamper: func(s *corev1.Secret) { s.Data["keystore.jks"] = s.Data["truststore.jks"] }, want: secret.KeystoreMismatch},
		{reason: "another profile", before: keystores, after: func(f *fixture) { f.crt.Spec.Keystores.PKCS12.Profile = cmv1.Modern2023PKCS12Profile }, want: secret.KeystoreMismatch},
		{reason: "the default profile, spelled out", before: keystores, after: func(f *fixture) { f.crt.Spec.Keystores.PKCS12.Profile = cmv1.LegacyRC2PKCS12Profile }},
		{reason: "a truststore was changed", before: keystores, tamper: func(s *corev1.Secret) { s.Data["truststore.p12"] = s.Data["keystore.p12"] }, want: secret.KeystoreMismatch},
		{reason: "a Java truststore was changed", before: keystores, tamper: func(s *corev1.Secret) { s.Data["truststore.jks"] = []byte("x") }, want: secret.KeystoreMismatch},
		{reason: "another CA", before: keystores, tamper: func(s *corev1.Secret) { s.Data["ca.crt"] = s.Data["tls.crt"] }, want: secret.KeystoreMismatch},
		{reason: "the alias of a CA", before: func(f *fixture) { keystores(f); f.crt.Spec.Keystores.JKS.Alias = ptr.To("CA") }},
		{reason: "an owner is wanted", owned: true, want: secret.OwnerMismatch},
		{reason: "an owner is there", owned: true, wasOwned: true},
		{reason: "an owner is not wanted any more", wasOwned: true, want: secret.OwnerMismatch},
		{reason: "somebody else made it the owner", tamper: func(s *corev1.Secret) { s.OwnerReferences = []metav1.OwnerReference{{UID: "uid"}} }},
		{reason: "managed fields that nobody can read", tamper: func(s *corev1.Secret) { s.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1("?") }, want: secret.ManagedFieldsError},
		{reason: "a label that somebody else has set", after: template("l", ""), tamper: func(s *corev1.Secret) { s.Labels["l"] = "x" }, want: secret.TemplateMismatch},
		{reason: "an annotation that somebody else has set", after: template("", "a"), tamper: func(s *corev1.Secret) { s.Annotations["a"] = "x" }, want: secret.TemplateMismatch},
		{reason: "DER that somebody else has written", before: formats(cmv1.CertificateOutputFormatDER), tamper: disown("f:data", "f:key.der"), want: secret.OutputFormatsMismatch},
		{reason: "an owner that somebody else has set", owned: true, tamper: func(s *corev1.Secret) { s.OwnerReferences = []metav1.OwnerReference{{UID: "uid"}} }, want: secret.OwnerMismatch},
		{reason: "an annotation of ours that somebody else has set", tamper: disown("f:metadata", "f:annotations", "f:"+cmv1.CommonNameAnnotationKey), want: secret.MetadataMismatch},
		{reason: "the attention label that somebody else has set", tamper: disown("f:metadata", "f:labels"), want: secret.MetadataMismatch},
		{reason: "what somebody else has applied", before: template("l", ""), after: noTemplate, tamper: func(s *corev1.Secret) { s.ManagedFields[0].Manager = "other" }, want: secret.MetadataMismatch},
		{reason: "what was updated", before: template("l", ""), after: noTemplate, tamper: func(s *corev1.Secret) { s.ManagedFields[0].Operation = metav1.ManagedFieldsOperationUpdate }, want: secret.MetadataMismatch},
		{reason: "no managed fields", tamper: func(s *corev1.Secret) { s.ManagedFields = nil }, want: secret.MetadataMismatch},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t)
			if tc.before != nil {
				tc.before(f)
			}
			s := stored(t, f.apply(t, secret.Options{Passwords: passwords, Owned: tc.wasOwned}))
			if tc.after != nil {
				tc.after(f)
			}
			if tc.tamper != nil {
				tc.tamper(s)
			}
			content, ok := secret.Existing(f.crt, s)
			if !ok {
				t.Fatal("the Secret has no content")
			}
			got, err := content.Drift(s, tc.owned, passwords)
			if err != nil || got != tc.want {
				t.Fatalf("drift %q, error %v, want %q", got, err, tc.want)
			}
			again, err := content.Apply(secret.Options{Passwords: passwords, Owned: tc.owned})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := content.Drift(stored(t, again), tc.owned, passwords); err != nil || got != "" {
				t.Errorf("drift %q, error %v, after it was written again", got, err)
			}
		})
	}
}

// A keystore of each profile is written again for each other one, and never for
// its own.
func TestDriftOfProfiles(t *testing.T) {
	profiles := []cmv1.PKCS12Profile{cmv1.LegacyRC2PKCS12Profile, cmv1.LegacyDESPKCS12Profile, cmv1.Modern2023PKCS12Profile, cmv1.Modern2026PKCS12Profile}
	f := newFixture(t)
	keystores(f)
	for _, before := range profiles {
		f.crt.Spec.Keystores.PKCS12.Profile = before
		s := stored(t, f.apply(t, secret.Options{Passwords: passwords}))
		for _, after := range profiles {
			f.crt.Spec.Keystores.PKCS12.Profile = after
			content, _ := secret.Existing(f.crt, s)
			if drift, err := content.Drift(s, false, passwords); err != nil || (drift == "") != (before == after) {
				t.Errorf("from %s to %s: drift %q, error %v", before, after, drift, err)
			}
		}
	}
}

// Keystores are written again when their password is another one, with each
// profile, and then never again.
func TestDriftOfPasswords(t *testing.T) {
	for _, profile := range []cmv1.PKCS12Profile{"", cmv1.LegacyDESPKCS12Profile, cmv1.Modern2023PKCS12Profile, cmv1.Modern2026PKCS12Profile} {
		for _, tc := range []struct {
			reason string
			now    secret.Passwords
			want   secret.Drift
		}{
			{"the same", passwords, ""},
			{"another one of PKCS#12", secret.Passwords{JKS: passwords.JKS, PKCS12: "other"}, secret.KeystoreMismatch},
			{"another one of Java", secret.Passwords{JKS: "other", PKCS12: passwords.PKCS12}, secret.KeystoreMismatch},
			{"none that is known", secret.Passwords{}, ""},
		} {
			t.Run(string(profile)+" "+tc.reason, func(t *testing.T) {
				f := newFixture(t)
				keystores(f)
				f.crt.Spec.Keystores.PKCS12.Profile = profile
				s := stored(t, f.apply(t, secret.Options{Passwords: passwords}))
				content, _ := secret.Existing(f.crt, s)
				if got, err := content.Drift(s, false, tc.now); err != nil || got != tc.want {
					t.Errorf("drift %q, error %v, want %q", got, err, tc.want)
				}
			})
		}
	}
}

func everything(f *fixture) {
	keystores(f)
	template("l", "a")(f)
	formats(cmv1.CertificateOutputFormatDER, cmv1.CertificateOutputFormatCombinedPEM)(f)
}

func template(label, annotation string) func(*fixture) {
	return func(f *fixture) {
		f.crt.Spec.SecretTemplate = &cmv1.CertificateSecretTemplate{}
		if label != "" {
			f.crt.Spec.SecretTemplate.Labels = map[string]string{label: "x"}
		}
		if annotation != "" {
			f.crt.Spec.SecretTemplate.Annotations = map[string]string{annotation: "x"}
		}
	}
}

func noTemplate(f *fixture) { f.crt.Spec.SecretTemplate = nil }

// A Secret that is written again keeps its annotations about the issuer, even
// if the Certificate names another issuer by now.
func TestExistingKeepsIssuer(t *testing.T) {
	f := newFixture(t)
	s := stored(t, f.apply(t, secret.Options{}))
	f.crt.Spec.IssuerRef.Name = "new"
	content, _ := secret.Existing(f.crt, s)
	if content.Issuer != (cmmeta.IssuerReference{Name: "ca"}) {
		t.Errorf("issuer %+v", content.Issuer)
	}
	s.Annotations = nil
	if content, _ = secret.Existing(f.crt, s); content.Issuer != f.crt.Spec.IssuerRef {
		t.Errorf("issuer %+v of a Secret that names none", content.Issuer)
	}
	s.Annotations = map[string]string{secret.TemporaryAnnotation: "true"}
	if content, _ = secret.Existing(f.crt, s); content.Temporary {
		t.Error("a mark makes the issuer's certificate a temporary one")
	}
	if _, ok := secret.Existing(f.crt, &corev1.Secret{}); ok {
		t.Error("an empty Secret has content")
	}
}
