// Command messages prints how the built-in kinds of Kubernetes are written as protocol buffers, one message a line:
//
//	=apps/v1/Deployment apps/v1.Deployment
//	apps/v1.Deployment metadata=1:@meta/v1.ObjectMeta spec=2:@apps/v1.DeploymentSpec …
//
// A field is its JSON name (none: its members stand in the message around it), its number and its type: s text, i whole
// number, d number with a fraction, b truth value, y bytes, q quantity, o number or text, t time, u time with
// microseconds, p duration, r any object, f field set, n a list of texts in a message of its own, @ a message; before it
// [] for a list and {} for a map; behind it ? when a zero is not the same as nothing.
//
// The embedded API server reads the result: go run . > ../../provisioner/embedded/apiserver/messages.txt
package main

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

var (
	stable = regexp.MustCompile(`^v\d+$`)
	leaves = map[string]string{
		"k8s.io/apimachinery/pkg/api/resource.Quantity":   "q",
		"k8s.io/apimachinery/pkg/util/intstr.IntOrString": "o",
		"k8s.io/apimachinery/pkg/apis/meta/v1.Time":       "t",
		"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":  "u",
		"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":   "p",
		"k8s.io/apimachinery/pkg/runtime.RawExtension":    "r",
		"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":   "f",
	}
	messages = map[string]string{}
)

func main() {
	var kinds []string
	for gvk, kind := range scheme.Scheme.AllKnownTypes() {
		isOption := strings.HasSuffix(gvk.Kind, "Options") || gvk.Kind == "WatchEvent"
		if !stable.MatchString(gvk.Version) || strings.HasSuffix(gvk.Kind, "List") || isOption {
			continue
		}
		version := gvk.GroupVersion().String()
		kinds = append(kinds, fmt.Sprintf("=%s/%s %s", version, gvk.Kind, describe(kind)))
	}
	options := describe(reflect.TypeOf(metav1.DeleteOptions{}))
	kinds = append(kinds, "=DeleteOptions "+options)
	sort.Strings(kinds)
	var lines []string
	for name, fields := range messages {
		lines = append(lines, name+fields)
	}
	sort.Strings(lines)
	for _, line := range append(kinds, lines...) {
		fmt.Fprintln(os.Stdout, line)
	}
}

// describe notes the message of a type, with all that it leads to, and answers its name.
func describe(kind reflect.Type) string {
	name := nameOf(kind)
	if _, done := messages[name]; done {
		return name
	}
	messages[name] = ""
	var fields strings.Builder
	for i := 0; i < kind.NumField(); i++ {
		field := kind.Field(i)
		tag := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue
		}
		json := strings.Split(field.Tag.Get("json"), ",")[0]
		fmt.Fprintf(&fields, " %s=%s:%s", json, tag[1], typeOf(field.Type))
	}
	messages[name] = fields.String()
	return name
}

func typeOf(kind reflect.Type) string {
	if leaf, found := leaves[kind.PkgPath()+"."+kind.Name()]; found {
		return leaf
	}
	switch kind.Kind() {
	case reflect.Pointer:
		return typeOf(kind.Elem()) + "?"
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "b"
	case reflect.Int32, reflect.Int64:
		return "i"
	case reflect.Float64:
		return "d"
	case reflect.Struct:
		return "@" + describe(kind)
	case reflect.Map:
		return "{}" + typeOf(kind.Elem())
	case reflect.Slice:
		if kind.Elem().Kind() == reflect.Uint8 {
			return "y"
		}
		if _, isMessage := reflect.PointerTo(kind).MethodByName("Marshal"); isMessage {
			return "n"
		}
		return "[]" + strings.TrimSuffix(typeOf(kind.Elem()), "?")
	}
	panic("no such type in protocol buffers: " + kind.String())
}

// nameOf is the last two parts of the package and the type: apps/v1.Deployment.
func nameOf(kind reflect.Type) string {
	parts := strings.Split(kind.PkgPath(), "/")
	return strings.Join(parts[len(parts)-2:], "/") + "." + kind.Name()
}
