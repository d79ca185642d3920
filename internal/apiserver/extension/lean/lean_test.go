package lean

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMetadataOrder: the sorted types have all fields of metadata, with the same
// tags, in the order of the alphabet. A new version of the library may have more.
func TestMetadataOrder(t *testing.T) {
	for _, pair := range [][2]any{
		{metav1.ObjectMeta{}, sortedMetadata{}}, {metav1.ManagedFieldsEntry{}, sortedManagement{}}, {metav1.OwnerReference{}, sortedOwner{}},
	} {
		theirs, ours := tags(pair[0]), tags(pair[1])
		for name, tag := range theirs {
			if ours[name] != tag {
				t.Errorf("%T: field %s has the tag %q, want %q", pair[1], name, ours[name], tag)
			}
		}
		last := ""
		for i := range reflect.TypeOf(pair[1]).NumField() {
			name := strings.Split(reflect.TypeOf(pair[1]).Field(i).Tag.Get("json"), ",")[0]
			if name <= last {
				t.Errorf("%T: %s is after %s", pair[1], name, last)
			}
			last = name
		}
	}
}

func tags(value any) map[string]string {
	out := map[string]string{}
	for i := range reflect.TypeOf(value).NumField() {
		field := reflect.TypeOf(value).Field(i)
		out[field.Name] = field.Tag.Get("json")
	}
	return out
}

// TestMetadata: metadata survive the ways out and in.
func TestMetadata(t *testing.T) {
	now, yes, seconds := metav1.Now().Rfc3339Copy(), true, int64(3)
	full := metav1.ObjectMeta{
		Annotations: map[string]string{"a": "<b>"}, CreationTimestamp: now, DeletionGracePeriodSeconds: &seconds, DeletionTimestamp: &now,
		Finalizers: []string{"f"}, GenerateName: "n-", Generation: 2, Labels: map[string]string{"l": "m"}, Name: "n", Namespace: "ns",
		ManagedFields: []metav1.ManagedFieldsEntry{{
			APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`), Manager: "m",
			Operation: metav1.ManagedFieldsOperationApply, Subresource: "status", Time: &now,
		}},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "o", UID: "u", Controller: &yes, BlockOwnerDeletion: &yes}},
		ResourceVersion: "1", UID: "u",
	}
	full.SetSelfLink("s")
	for i := range reflect.TypeOf(full).NumField() {
		if reflect.ValueOf(full).Field(i).IsZero() {
			t.Errorf("the test does not know the field %s", reflect.TypeOf(full).Field(i).Name)
		}
	}
	for _, m := range []metav1.ObjectMeta{full, {}} {
		text, err := marshalMetadata(&m)
		if err != nil {
			t.Fatal(err)
		}
		var back metav1.ObjectMeta
		if err := json.Unmarshal(text, &back); err != nil || !cmp.Equal(m, back) {
			t.Errorf("%s is read as something else: %v", text, err)
		}
		values, err := metadataMap(&m)
		if err != nil {
			t.Fatal(err)
		}
		if inOrder, _ := json.Marshal(values); !bytes.Equal(inOrder, text) {
			t.Errorf("%s, want the library's %s", text, inOrder)
		}
	}
}

// TestStrangeKind: a refused object, which audit logs have, is JSON too.
func TestStrangeKind(t *testing.T) {
	o := &Object{TypeMeta: metav1.TypeMeta{APIVersion: "a\x01\"", Kind: "\x7f\u2028\xff</"}}
	text, err := o.MarshalJSON()
	if err != nil || !json.Valid(text) {
		t.Errorf("%s: %v", text, err)
	}
}

// TestFieldTexts: what is remembered is never that of another text, and long texts
// are not kept.
func TestFieldTexts(t *testing.T) {
	f := newFieldTexts("spec")
	for range 2 {
		for i := range 3 * remembered {
			text := JSON(fmt.Sprintf(`{"i":%d}`, i))
			got, err := f.value(text)
			if want := map[string]any{"i": int64(i)}; err != nil || !cmp.Equal(got, any(want)) {
				t.Fatalf("%s is %v, %v", text, got, err)
			}
		}
	}
	long := JSON(`"` + strings.Repeat("x", longestRemembered) + `"`)
	if _, err := f.value(long); err != nil || f.find(long) != nil {
		t.Errorf("a long text is kept: %v", err)
	}
	if _, err := f.value("{"); err == nil {
		t.Error("half a text is parsed")
	}
}
