"""Types as text: what Spark would read, and an error that says where it cannot be read."""

from __future__ import annotations

import pytest

from kclient.errors import ConfigurationError
from kclient.spark.ddl import data_type


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("int", "int"),
        ("STRING", "string"),
        ("decimal", "decimal(10,0)"),
        ("decimal( 12 , 2 )", "decimal(12,2)"),
        ("id bigint, name string", "struct<id:bigint,name:string>"),
        ("id: long, name: string", "struct<id:bigint,name:string>"),
        (
            "a array<struct<b: int, c map<string, double>>>",
            "struct<a:array<struct<b:int,c:map<string,double>>>>",
        ),
        ("`two words` timestamp, `a``b` date", "struct<two words:timestamp,a`b:date>"),
        ("struct<a:tinyint,b:smallint,c:boolean>", "struct<a:tinyint,b:smallint,c:boolean>"),
        ("t timestamp_ntz, f float, r real, x binary", "struct<t:timestamp_ntz,f:float,r:float,x:binary>"),
        ("map<int, array<byte>>", "map<int,array<tinyint>>"),
        ("map string", "struct<map:string>"),
    ],
)
def test_a_text_is_read_as_spark_reads_it(text: str, found: str) -> None:
    assert data_type(text).simpleString() == found


def test_fields_may_be_required_and_have_comments() -> None:
    kind = data_type("id bigint NOT NULL COMMENT 'the number', name string")
    assert [(field.name, field.nullable) for field in kind.fields] == [("id", False), ("name", True)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "blabla",
        "a int,",
        "array<int",
        "map<int, boolean>>",
        "a int b int",
        "decimal(x)",
        "a ?",
        "struct<>",
    ],
)
def test_what_cannot_be_read_says_where(text: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read at"):
        data_type(text)
