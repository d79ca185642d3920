package replay

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// With other policies to compare with, all is read of a line that its decision was about.
func TestInputLine(t *testing.T) {
	var full v1alpha1.LoggedDecision
	value := reflect.ValueOf(&full).Elem()
	for i := 1; i < value.NumField(); i++ { // the first is the decision
		switch field := value.Field(i); field.Kind() {
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		default:
			t.Fatalf("the test has no value for %s", value.Type().Field(i).Name)
		}
	}
	full.Object.Raw = []byte("{}")
	data, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var in inputLine
	if err := json.Unmarshal(data, &in); err != nil {
		t.Fatal(err)
	}
	read := reflect.ValueOf(in.line()).Elem()
	for i := 1; i < read.NumField(); i++ {
		if read.Field(i).IsZero() {
			t.Errorf("%s is not read", read.Type().Field(i).Name)
		}
	}
}
