#!/usr/bin/env bash
# Compiles the tests that are written in Java, for Jedis, with the jars that they need beside them.
#
# Usage: tools/jedis.sh STAMP PYTHON
#
# Ivy, which fetches the jars, is part of PySpark; the compiler is one of the jars, so Java needs no
# development kit.  Without Java, or where something fails, it says so: these tests are skipped
# then, unless CRDTSTREAM_REQUIRE_ALL=1 asks for every test.
set -euo pipefail
. "$(dirname "$0")/optional.sh"

stamp=$1
python=$2
sources=$(realpath "$(dirname "$0")/../tests/clients/java")

command -v java >/dev/null ||
    give_up "the tests of Jedis are not compiled: no Java here; they are skipped"
pyspark=$("$python" -c 'import pyspark; print(pyspark.__path__[0])' 2>/dev/null) ||
    give_up "the tests of Jedis are not compiled: no PySpark here; they are skipped"

folder=$(dirname "$stamp")
rm -rf "$folder"
mkdir -p "$folder/jars" "$folder/classes"
"$again" java -jar "$pyspark"/jars/ivy-*.jar -warn -ivy "$sources/ivy.xml" -types jar -confs default \
    -retrieve "$folder/jars/[artifact]-[revision].[ext]" >&2 ||
    give_up "the jars of Jedis cannot be had (the reason is above); its tests are skipped"
(cd "$folder/jars" && sha256sum --quiet --check "$sources/jars.sha256") ||
    give_up "jars of Jedis are others than tests/clients/java/jars.sha256 says; its tests are skipped"
# This compiler takes no pattern for a class path.
class_path=$(printf '%s:' "$folder"/jars/*.jar)
java -jar "$folder"/jars/ecj-*.jar -17 -nowarn -cp "$class_path" -d "$folder/classes" \
    "$sources"/*.java ||
    give_up "the tests of Jedis cannot be compiled (the reason is above); they are skipped"
touch "$stamp"
